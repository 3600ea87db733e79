// Any bytes as a SEG-Y file: headers, geometry and samples. The first bytes choose the options, so
// that these are explored too. Errors are answers; anything else is a finding.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "craton/volume/segy/ingest.h"
#include "craton/volume/segy/memory_writer.h"
#include "craton/volume/segy/survey_report.h"

namespace {

using namespace craton;
using namespace craton::volume;
using namespace craton::volume::segy;

constexpr size_t kChoices = 8;

IngestOptions choose(const uint8_t* choice) {
  IngestOptions options;
  if (choice[0] & 1) options.read.order = choice[0] & 2 ? ByteOrder::kBig : ByteOrder::kLittle;
  if (choice[0] & 4) options.read.format = 1 + choice[1] % 12;
  options.read.su = choice[0] & 8;
  options.read.lenient = choice[0] & 16;
  if (choice[0] & 32) options.read.samples = 1 + choice[2];
  if (choice[0] & 64) options.read.extended_headers = choice[2] % 4 - 1;
  options.geometry.kind = static_cast<GeometryKind>(choice[3] % 4);
  options.geometry.duplicates = static_cast<Duplicates>(choice[3] / 4 % 3);
  options.geometry.delay = static_cast<DelayPolicy>(choice[3] / 16 % 3);
  options.geometry.use_offset = choice[4] & 1;
  options.geometry.own_fields = choice[4] & 2;
  options.fields.inline_field = {1 + choice[5] % 233, static_cast<FieldType>(choice[6] % 10)};
  options.fields.crossline_field = {1 + choice[7] % 233,
                                    static_cast<FieldType>(choice[6] / 10 % 10)};
  if (!options.geometry.own_fields) options.fields = {};
  options.chunk_shape.clear();
  options.threads = 1;
  options.memory_bytes = choice[4] & 4 ? 1 : 1 << 20;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kChoices) return 0;
  const IngestOptions options = choose(data);
  const auto* bytes = reinterpret_cast<const std::byte*>(data) + kChoices;
  const auto source = std::make_shared<MemorySource>(
      "fuzz.sgy", std::vector<std::byte>(bytes, bytes + (size - kChoices)));
  try {
    const std::vector<SourceFile> files = {{source, inspect(*source, options.read)}};
    auto grid = std::make_shared<MemoryGrid>();
    ingest(
        files,
        [&](const VolumeSpec& spec, const std::string&) {
          return std::make_unique<MemoryWriter>(spec, grid);
        },
        options);
  } catch (const Error&) {
    // An answer.
  }
  try {
    const std::vector<SourceFile> files = {{source, inspect(*source, options.read)}};
    const SurveyReport report = survey(files, options.fields, options.geometry, 1);
    to_text(report);
    to_json(report);
  } catch (const Error&) {
    // An answer.
  }
  return 0;
}
