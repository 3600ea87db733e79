#pragma once

namespace craton::train {

/// The program of a training process. A worker of one's own is a main that registers models and
/// calls this; see examples/custom_model. Errors become one line on stderr (and a message to the
/// agent) and exit code 1.
int worker_main(int argc, char** argv);

}  // namespace craton::train
