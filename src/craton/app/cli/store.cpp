#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "craton/app/cli/store_verbs.h"
#include "craton/app/cli/verbs.h"
#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/store/object_store.h"
#include "craton/store/uri.h"

namespace craton::app {

namespace {

constexpr uint64_t kWindow = 64 << 20;

void write_out(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size())
    fail(ErrorCode::kIo, "cannot write to standard output");
}

struct ListArguments {
  std::string location;
  bool recursive = false;
};

void run_ls(const ListArguments& arguments) {
  const auto store = store::open_store(arguments.location);
  if (!arguments.recursive) {
    for (const std::string& name : store->list_children("")) fmt::print("{}\n", name);
    return;
  }
  uint64_t bytes = 0;
  const auto objects = store->list("");
  for (const store::ObjectInfo& object : objects) {
    fmt::print("{:>14}  {}\n", object.size, object.key);
    bytes += object.size;
  }
  fmt::print("{} objects, {}\n", objects.size(), format_bytes(static_cast<double>(bytes)));
}

struct CatArguments {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

void run_cat(const CatArguments& arguments) {
  const store::ObjectPlace place = store::split_uri(arguments.location);
  const auto store = store::open_store(place.root);
  const auto info = store->head(place.key);
  if (!info) fail(ErrorCode::kNotFound, "there is no object {}", arguments.location);
  if (arguments.offset > info->size)
    fail(ErrorCode::kOutOfRange, "{} has {} bytes; --offset {} is behind them", arguments.location,
         info->size, arguments.offset);
  const uint64_t end = arguments.offset + std::min(arguments.length.value_or(info->size),
                                                   info->size - arguments.offset);
  for (uint64_t at = arguments.offset; at < end; at += kWindow) {
    const auto bytes = store->get_range(place.key, at, std::min(kWindow, end - at));
    if (!bytes) fail(ErrorCode::kNotFound, "{} was removed meanwhile", arguments.location);
    write_out(*bytes);
  }
}

}  // namespace

void add_store_ls(CLI::App& store) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::App* verb = store.add_subcommand("ls", "List what lies below a location");
  verb->footer(
      "Examples:\n"
      "  craton store ls s3://surveys/north-sea\n"
      "  craton store ls -r \"s3://surveys/f3.mdio?endpoint=http://127.0.0.1:9000\"");
  verb->add_option("location", arguments->location, "s3://bucket/prefix, file:///path or a path")
      ->required();
  verb->add_flag("-r,--recursive", arguments->recursive, "All objects, with their sizes");
  verb->callback([arguments] { run_ls(*arguments); });
}

void add_store_cat(CLI::App& store) {
  auto arguments = std::make_shared<CatArguments>();
  CLI::App* verb = store.add_subcommand("cat", "Write an object to standard output");
  verb->footer(
      "Examples:\n"
      "  craton store cat s3://surveys/f3.mdio/zarr.json\n"
      "  craton store cat s3://surveys/f3.sgy --length 3200    the text header");
  verb->add_option("object", arguments->location, "An object")->required();
  verb->add_option("--offset", arguments->offset, "The first byte");
  verb->add_option("--length", arguments->length, "At most so many bytes");
  verb->callback([arguments] { run_cat(*arguments); });
}

void add_store(CLI::App& app) {
  CLI::App* store = app.add_subcommand(
      "store", "List, copy, show and check objects in S3, files and web servers");
  store->require_subcommand(1);
  store->footer(
      "Locations: s3://bucket/prefix, http(s)://host/path (to read), file:///path, or a path.\n"
      "S3 takes its endpoint, region and credentials from where the AWS tools take theirs; "
      "CRATON_S3_ENDPOINT\n"
      "or options behind the location come first: "
      "\"s3://b/p?endpoint=http://host:9000&region=r&style=path\",\n"
      "also anonymous=1, requester_pays=1, profile=NAME, forbidden_is_missing=1.");
  add_store_ls(*store);
  add_store_cp(*store);
  add_store_cat(*store);
  add_store_check(*store);
}

}  // namespace craton::app
