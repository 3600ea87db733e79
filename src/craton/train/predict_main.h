#pragma once

namespace craton::train {

/// `craton-worker predict ...`, which `craton predict` runs: argv[0] is "predict". Reports progress
/// on stderr and the result as one line on stdout. Errors become one line on stderr and exit code
/// 1; nothing is left behind then, nor after SIGINT or SIGTERM.
int predict_main(int argc, char** argv);

}  // namespace craton::train
