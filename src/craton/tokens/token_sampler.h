#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "craton/tokens/token_file.h"
#include "craton/volume/sampling/turns.h"

namespace craton::tokens {

/// Files that are mixed with others as one: a data set.
struct TokenSource {
  std::vector<TokenFile> files;
  double weight = 0;  ///< share of the samples; 0 for all sources: by their number of windows
};

/// All of it is part of the recipe: two jobs with the same settings and files see the same samples.
struct TokenSamplerSettings {
  int64_t sequence = 1024;  ///< tokens that a window predicts; it holds one more
  uint64_t seed = 0;
  double validation_fraction = 0.1;         ///< of each file, its end; at least a window; 0: none
  int64_t validation_count = 32;            ///< validation windows over all sources
  uint64_t working_set_bytes = 512u << 20;  ///< of files between which samples are shuffled
};

/// `sequence + 1` tokens of one file.
struct TokenWindow {
  int32_t source = 0, file = 0;
  int64_t pass = 0;   ///< how often this source was used up before
  int64_t first = 0;  ///< number of the first token in its file
  bool operator==(const TokenWindow&) const = default;
};

/// Sample number -> window, by arithmetic: whoever asks, in any order, on any thread, gets the same
/// answer; nothing is remembered.
///
/// A file's training part is cut into windows that overlap by one token, so that each token is
/// predicted once in a pass; files of some length are cut at another phase in each pass. As many
/// neighbouring windows as fit in a block of bytes form a block. Order of a pass: blocks are
/// shuffled; neighbours in that order form a group that fits the working set; the windows of a
/// group are shuffled by a keyed permutation. Sources take turns in the proportion of their
/// weights.
class TokenSampler {
 public:
  /// Error when a setting is impossible or a source has no window: names the source, what it has
  /// and what to change.
  TokenSampler(std::vector<TokenSource> sources, TokenSamplerSettings settings);
  ~TokenSampler();
  TokenSampler(const TokenSampler&) = delete;
  TokenSampler& operator=(const TokenSampler&) = delete;

  const TokenSamplerSettings& settings() const { return settings_; }
  const std::vector<TokenSource>& sources() const { return sources_; }
  const TokenFile& file(const TokenWindow& window) const {
    return sources_[static_cast<size_t>(window.source)].files[static_cast<size_t>(window.file)];
  }

  /// Any sample number from 0 up; thread-safe.
  TokenWindow locate(int64_t sample_number) const;
  /// Of one source in a pass.
  int64_t windows_per_pass(int32_t source) const;
  double share(int32_t source) const { return turns_.share(source); }

  /// Fixed windows of the validation parts, the same for every seed.
  int64_t validation_size() const { return static_cast<int64_t>(validation_.size()); }
  TokenWindow locate_validation(int64_t index) const;

  /// One line for the log.
  std::string describe() const;

 private:
  struct Plan;  // of one source
  std::unique_ptr<const Plan> make_plan(size_t number) const;
  void choose_validation();

  std::vector<TokenSource> sources_;
  TokenSamplerSettings settings_;
  std::vector<std::unique_ptr<const Plan>> plans_;
  volume::Turns turns_;
  std::vector<TokenWindow> validation_;
};

}  // namespace craton::tokens
