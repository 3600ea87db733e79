// Any bytes as trace headers and samples of a file that is otherwise sound: where the traces go is
// fixed, so that every input reaches the samples. The file must come back from its volume byte by
// byte, in the formats that promise it; the others must not crash.

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "craton/runtime/file.h"
#include "craton/volume/segy/export.h"
#include "craton/volume/segy/fixture.h"

namespace {

using namespace craton;
using namespace craton::volume;
using namespace craton::volume::segy;

constexpr size_t kChoices = 6;
constexpr int kFormats[] = {1, 2, 3, 5, 8, 4, 6, 7, 9, 10, 11, 12, 15, 16};
constexpr int kLossless = 5;

/// Overwrites headers and samples with the input, over and over where it is short.
Fixture make_file(const uint8_t* choice, const uint8_t* data, size_t size) {
  Fixture file(choice[0] & 1 ? ByteOrder::kBig : ByteOrder::kLittle, kFormats[choice[1] % 14]);
  file.samples = 1 + choice[2] % 40;
  file.extra_headers = choice[0] & 2 ? 1 : 0;
  if (file.extra_headers > 0)
    file.in_binary<uint8_t>(3501, 2).in_binary<uint8_t>(3502, 1).in_binary<uint16_t>(3507, 1);
  file.in_binary<int16_t>(3503, 1);
  const int32_t inlines = 1 + choice[3] % 5, crosslines = 2 + choice[4] % 5;
  file.add_grid(inlines, crosslines);
  if (choice[0] & 4 && file.traces.size() > 3) file.traces.erase(file.traces.begin() + 1);
  if (choice[0] & 8) std::swap(file.traces.front(), file.traces.back());
  size_t at = 0;
  for (auto& trace : file.traces) {
    for (size_t b = 0; b < trace.size(); ++b) {
      const bool place = b >= 188 && b < 196, delay = b >= 108 && b < 110;
      if (!place && !delay && at < 100000) trace[b] = static_cast<std::byte>(data[at++ % size]);
    }
  }
  return file;
}

/// A folder in memory where there is one.
std::filesystem::path scratch() {
  const std::filesystem::path memory = "/dev/shm";
  return (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) /
         ("craton-fuzz-" + std::to_string(::getpid()));
}

void there_and_back(const Fixture& file, const uint8_t* choice) {
  const std::vector<std::byte> bytes = file.bytes();
  IngestOptions options;
  options.read.format = file.format;
  options.geometry.own_fields = true;
  options.threads = 1;
  options.replace = true;
  options.memory_bytes = choice[0] & 16 ? 1 : 1 << 20;
  if (choice[0] & 32) options.chunk_shape = {2, 2, 1 + choice[5] % 9};
  const auto source = std::make_shared<MemorySource>("fuzz.sgy", bytes);
  ingest(
      std::vector<SourceFile>{{source, inspect(*source, options.read)}},
      [&](const VolumeSpec& spec, const std::string&) {
        return create_volume("memory://fuzz", spec, true);
      },
      options);
  ExportOptions back;
  back.replace = true;
  back.threads = 1;
  static const runtime::StagedDirectory folder(scratch());  // never committed: removed at the end
  const std::filesystem::path out = folder.staging() / "back.sgy";
  export_segy(*open_volume("memory://fuzz"), out, back);
  const bool lossless =
      std::find(kFormats, kFormats + kLossless, file.format) != kFormats + kLossless;
  if (lossless && runtime::read_file(out) != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size <= kChoices) return 0;
  const Fixture file = make_file(data, data + kChoices, size - kChoices);
  try {
    there_and_back(file, data);
  } catch (const Error&) {
    // An answer.
  }
  return 0;
}
