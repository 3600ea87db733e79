#pragma once

// The one door to libtorch. It is large: this is the precompiled header of every module that may
// include it.
#include <torch/torch.h>
#include <torch/version.h>
