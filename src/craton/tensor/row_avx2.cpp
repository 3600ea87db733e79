#include "craton/tensor/row_kernel.h"
#include "craton/tensor/vector_avx2.h"

namespace craton::tensor {

RowKernelTable<float> avx2_rows() { return RowKernel<AvxFloat>::table(); }

}  // namespace craton::tensor
