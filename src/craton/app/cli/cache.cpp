#include <fmt/format.h>
#include <poll.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "craton/app/cli/interrupt.h"
#include "craton/app/cli/verbs.h"
#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/store/cache/cache_server.h"
#include "craton/store/cache/cached_store.h"

namespace craton::app {
namespace {

struct ServeArguments {
  std::string folder, listen = "127.0.0.1:7071", bytes = "16GiB";
};

store::CacheServerOptions read_address(const std::string& listen) {
  store::CacheServerOptions options;
  const size_t colon = listen.rfind(':');
  const std::string port = colon == listen.npos ? listen : listen.substr(colon + 1);
  if (colon != listen.npos) options.host = listen.substr(0, colon);
  if (options.host == "0.0.0.0" || options.host == "*") options.host.clear();
  const bool digits = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == port.npos && std::stoi(port) <= 65535;
  if (!digits)
    fail(ErrorCode::kInvalidArgument, "--listen {}: expected ADDRESS:PORT, e.g. 0.0.0.0:7071",
         listen);
  options.port = static_cast<uint16_t>(std::stoi(port));
  if (const char* token = std::getenv("CRATON_CACHE_TOKEN")) options.token = token;
  return options;
}

void serve(const ServeArguments& arguments) {
  store::NodeCacheOptions options;
  options.folder = arguments.folder.empty()
                       ? store::default_cache_folder(store::process_environment())
                       : std::filesystem::path(arguments.folder);
  options.bytes = parse_bytes(arguments.bytes);
  const Interrupt interrupt;
  const auto cache = store::NodeCache::open(options);
  const store::CacheServer server(cache, read_address(arguments.listen));
  fmt::print("serving {} on port {}\n", cache->folder().string(), server.port());
  std::fflush(stdout);
  while (!interrupt.flag()) ::poll(nullptr, 0, 200);  // a signal ends the wait
  const auto counters = server.counters();
  fmt::print("{} entries given, {} asked for in vain, {} taken, {} refused\n", counters.given,
             counters.missing, counters.taken, counters.refused);
}

}  // namespace

void add_cache(CLI::App& app) {
  CLI::App* cache = app.add_subcommand("cache", "The node's cache of what training has read");
  cache->require_subcommand(1);
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* verb = cache->add_subcommand(
      "serve", "Give this node's cache to other nodes, and keep their copies");
  verb->footer(
      "Once on each node whose recipe says data.cache.mode: persistent. Beyond 127.0.0.1 all nodes "
      "need the same\nCRATON_CACHE_TOKEN in their environment.\n"
      "Example:\n"
      "  CRATON_CACHE_TOKEN=secret craton cache serve --listen 0.0.0.0:7071");
  verb->add_option("--folder", arguments->folder, "The cache's folder (that of this user)");
  verb->add_option("--listen", arguments->listen, "ADDRESS:PORT")->capture_default_str();
  verb->add_option("--bytes", arguments->bytes, "Its size, as in the recipe")
      ->capture_default_str();
  verb->callback([arguments] { serve(*arguments); });
}

}  // namespace craton::app
