#include "craton/tensor/attention_kernel.h"
#include "craton/tensor/vector_avx2.h"

namespace craton::tensor {

AttentionKernelTable<float> avx2_attention() { return AttentionKernel<AvxFloat>::table(); }

}  // namespace craton::tensor
