#include "training_job.h"

#include <fmt/format.h>

#include <cstdlib>

#include "bench_job.h"
#include "craton/runtime/file.h"

namespace craton::bench {

namespace fs = std::filesystem;

std::vector<std::string> pinned_kernels() {
  return {"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "OPENBLAS_CORETYPE=Haswell",
          "ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2"};
}

runtime::ProgramResult run_in(const fs::path& folder, const std::vector<std::string>& argv,
                              std::vector<std::string> environment, std::chrono::seconds limit) {
  runtime::ProgramOptions options;
  options.environment = std::move(environment);
  options.folder = folder.string();
  options.timeout = limit;
  const auto result = runtime::run_program(argv, options);
  if (result.exit_code != 0) {
    fmt::print(stderr, "{} ended with {}\n{}{}\n", argv[0], result.exit_code, result.errors,
               result.output);
    std::exit(1);
  }
  return result;
}

std::vector<results::StepMetrics> train(const nlohmann::json& recipe, const fs::path& folder,
                                        const std::vector<std::string>& environment) {
  const std::string name = recipe["name"];
  runtime::write_file_atomically(folder / (name + ".yaml"), recipe.dump(2));
  fs::remove_all(folder / "runs");
  std::vector<std::string> all = pinned_kernels();
  all.insert(all.end(), environment.begin(), environment.end());
  run_in(folder, {craton_program(), "train", name + ".yaml"}, all);
  return results::read_metrics(folder / "runs" / name / "metrics.jsonl");
}

}  // namespace craton::bench
