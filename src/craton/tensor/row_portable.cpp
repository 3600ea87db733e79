#include "craton/tensor/row_kernel.h"
#include "craton/tensor/vector_portable.h"

namespace craton::tensor {

template <typename T>
RowKernelTable<T> portable_rows() {
  return RowKernel<PlainVector<T>>::table();
}
template RowKernelTable<float> portable_rows();
template RowKernelTable<double> portable_rows();

}  // namespace craton::tensor
