#include "compiler/interp/tensor.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {

Tensor::Tensor(DType dtype, Shape shape)
    : dtype(dtype), shape(std::move(shape)), bits(NumElements(this->shape), 0), valid(bits.size(), 0) {}

uint64_t LoadElement(DType dtype, const char* data) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, ItemSize(dtype));
  return IsIntOrBool(dtype) ? WrapInt(dtype, bits) : bits;
}

void StoreElement(DType dtype, uint64_t bits, char* data) { std::memcpy(data, &bits, ItemSize(dtype)); }

Tensor FromHost(const HostTensor& host) {
  Tensor tensor(host.dtype, host.shape);
  const int item = ItemSize(host.dtype);
  KILN_CHECK(host.bytes.size() == tensor.bits.size() * item);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.Set(i, LoadElement(host.dtype, host.bytes.data() + i * item));
  return tensor;
}

HostTensor ToHost(const Tensor& tensor) {
  HostTensor host{tensor.dtype, tensor.shape, {}};
  const int item = ItemSize(tensor.dtype);
  host.bytes.resize(tensor.bits.size() * item);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    StoreElement(tensor.dtype, tensor.valid[i] ? tensor.bits[i] : 0, host.bytes.data() + i * item);
  }
  return host;
}

Shape Strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

void Odometer::Next() {
  --left_;
  for (size_t i = coords_.size(); i-- > 0;) {
    if (++coords_[i] < shape_[i]) return;
    coords_[i] = 0;
  }
}

int64_t Odometer::Dot(const Shape& strides) const {
  int64_t sum = 0;
  for (size_t i = 0; i < coords_.size(); ++i) sum += coords_[i] * strides[i];
  return sum;
}

}  // namespace kiln::compiler
