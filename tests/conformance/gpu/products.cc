#include "tests/conformance/gpu/products.h"

#include <array>
#include <cstdint>
#include <string>

#include "client/cpp/nn.h"
#include "client/cpp/ops.h"
#include "compiler/interp/scalar.h"
#include "compiler/target/gpu/architectures.h"

namespace kiln::testing {

compiler::HostTensor Numbers(v1::DType dtype, const client::Shape& shape, int64_t seed) {
  compiler::HostTensor tensor;
  tensor.dtype = compiler::FromWire(dtype);
  tensor.shape.assign(shape.begin(), shape.end());
  std::array<std::string, 9> elements;
  for (int64_t i = 0; i < 9; ++i) {
    const auto number = static_cast<uint64_t>(i - 4);
    const uint64_t bits = compiler::EvalScalar(compiler::Op::CAST, compiler::DType::kInt32, tensor.dtype, {number});
    elements[static_cast<size_t>(i)].resize(static_cast<size_t>(compiler::ItemSize(tensor.dtype)));
    compiler::StoreElement(tensor.dtype, bits, elements[static_cast<size_t>(i)].data());
  }
  for (int64_t i = 0; i < compiler::NumElements(tensor.shape); ++i)
    tensor.bytes += elements[static_cast<size_t>((i * 37 + i / 11 + seed * 5) % 9)];
  return tensor;
}

client::Tensor Made::Param(v1::DType dtype, const client::Shape& shape) {
  const auto slot = static_cast<uint32_t>(arguments.size());
  arguments[slot] = Numbers(dtype, shape, slot);
  return graph.Param(slot, dtype, shape);
}

v1::Target TargetOf(const std::string& architecture, int cores) {
  v1::Target target = *compiler::GpuTarget(architecture);
  target.mutable_tuning()->set_cores(static_cast<uint32_t>(cores));
  return target;
}

client::Tensor In(v1::DType sum, const client::Tensor& a, const client::Tensor& b) {
  return client::Matmul(client::Cast(a, sum), client::Cast(b, sum));
}

client::Tensor Wide(const client::Tensor& a, const client::Tensor& b) { return In(v1::FLOAT32, a, b); }

}  // namespace kiln::testing
