#include "models/onnx/known.h"

#include <algorithm>
#include <cstring>

#include "base/float_bits.h"
#include "models/onnx/known_ops.h"

namespace kiln::onnx {
namespace {

// One element, little-endian.
int64_t Integer(v1::DType dtype, const char* data) {
  const int64_t size = client::DTypeSize(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, data, static_cast<size_t>(size));
  if (dtype == v1::BOOL) return bits != 0;
  if (!client::IsSigned(dtype) || size == 8) return static_cast<int64_t>(bits);
  const int shift = static_cast<int>(64 - 8 * size);
  return static_cast<int64_t>(bits << shift) >> shift;
}

double Real(v1::DType dtype, const char* data) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, static_cast<size_t>(client::DTypeSize(dtype)));
  return BitsToFloat(dtype, bits);
}

std::optional<Known> Constant(const v1::ConstArg& arg) {
  Known known{arg.dtype(), {}, {}, {}};
  switch (arg.value_case()) {
    case v1::ConstArg::kB: known.integers = {arg.b() ? 1 : 0}; break;
    case v1::ConstArg::kI: known.integers = {arg.i()}; break;
    case v1::ConstArg::kU: known.integers = {static_cast<int64_t>(arg.u())}; break;
    case v1::ConstArg::kF: known.reals = {Rounded(arg.dtype(), arg.f())}; break;
    default: return std::nullopt;
  }
  if (known.IsReal() && known.reals.empty()) {
    const std::optional<int64_t> number = known.integers[0].number();
    known.reals = {static_cast<double>(*number)};
    known.integers.clear();
  }
  return known;
}

}  // namespace

std::optional<std::vector<int64_t>> Known::Numbers() const {
  std::vector<int64_t> numbers;
  if (IsReal()) return std::nullopt;
  for (const client::Size& size : integers) {
    if (!size.number()) return std::nullopt;
    numbers.push_back(*size.number());
  }
  return numbers;
}

std::optional<std::vector<double>> Known::Reals() const {
  if (IsReal()) return reals;
  const auto numbers = Numbers();
  if (!numbers) return std::nullopt;
  return std::vector<double>(numbers->begin(), numbers->end());
}

std::optional<Known> FromHost(const client::HostTensor& tensor) {
  Known known{tensor.dtype, tensor.shape, {}, {}};
  const int64_t size = client::DTypeSize(tensor.dtype);
  if (size == 0) return std::nullopt;
  for (size_t at = 0; at + static_cast<size_t>(size) <= tensor.bytes.size(); at += static_cast<size_t>(size)) {
    if (known.IsReal()) {
      known.reals.push_back(Real(tensor.dtype, tensor.bytes.data() + at));
    } else {
      known.integers.push_back(Integer(tensor.dtype, tensor.bytes.data() + at));
    }
  }
  return known;
}

std::optional<std::vector<double>> RealsFromHost(const client::HostTensor& tensor) {
  const auto size = static_cast<size_t>(client::DTypeSize(tensor.dtype));
  if (size == 0) return std::nullopt;
  std::vector<double> reals(tensor.bytes.size() / size);
  for (size_t i = 0; i < reals.size(); ++i) {
    const char* data = tensor.bytes.data() + i * size;
    reals[i] =
        client::IsFloat(tensor.dtype) ? Real(tensor.dtype, data) : static_cast<double>(Integer(tensor.dtype, data));
  }
  return reals;
}

const Known* KnownValues::At(uint32_t node) const {
  const auto found = found_.find(node);
  return found != found_.end() && found->second ? &*found->second : nullptr;
}

// Sources have lower numbers than their users, so in ascending order each is found before it
// is wanted. No walk goes beneath a node that was looked at before.
const Known* KnownValues::Find(client::Tensor tensor) {
  if (!tensor.valid()) return nullptr;
  std::vector<uint32_t> wanted, stack = {tensor.node()};
  while (!stack.empty()) {
    const uint32_t node = stack.back();
    stack.pop_back();
    if (!found_.try_emplace(node, std::nullopt).second) continue;
    wanted.push_back(node);
    for (const uint32_t source : graph_.uop(node).src()) stack.push_back(source);
  }
  std::sort(wanted.begin(), wanted.end());
  for (const uint32_t node : wanted) found_[node] = Evaluate(node);
  if (At(tensor.node()) != nullptr) Tell(tensor.node());
  return At(tensor.node());
}

void KnownValues::Tell(uint32_t node) {
  std::vector<uint32_t> stack = {node};
  while (!stack.empty()) {
    const uint32_t at = stack.back();
    stack.pop_back();
    if (!told_.insert(at).second) continue;
    const v1::UOp& uop = graph_.uop(at);
    if (uop.op() == v1::PARAM && uop.buffer().addrspace() != v1::ALU) used_(uop.buffer().slot());
    for (const uint32_t source : uop.src()) stack.push_back(source);
  }
}

std::optional<Known> KnownValues::Evaluate(uint32_t node) {
  const v1::UOp& uop = graph_.uop(node);
  const client::Graph::Type type = graph_.type(node);
  if (uop.op() == v1::CONST) return Constant(uop.constant());
  if (uop.op() == v1::PARAM && uop.buffer().addrspace() == v1::ALU) {
    client::SizeVariable variable{uop.buffer().slot(), uop.buffer().name(), uop.buffer().min_value(),
                                  uop.buffer().max_value()};
    return Known{uop.buffer().dtype(), {}, {client::Size(std::move(variable))}, {}};
  }
  const std::optional<int64_t> count = client::ElementCount(type.shape);
  if (!type.sizes.IsConst() || !count || *count > limits_.known_elements) return std::nullopt;
  if (uop.op() == v1::PARAM) {
    const client::HostTensor* value = lookup_(uop.buffer().slot());
    return value != nullptr ? FromHost(*value) : std::nullopt;
  }
  std::vector<const Known*> sources;
  work_ += *count;
  for (const uint32_t source : uop.src()) {
    sources.push_back(At(source));
    if (sources.back() == nullptr) return std::nullopt;
    work_ += sources.back()->count();
  }
  if (work_ > limits_.known_work) return std::nullopt;
  auto moved = KnownMovement(uop, sources, type.dtype, type.shape);
  return moved ? moved : KnownElementwise(uop, sources, type.dtype, type.shape);
}

}  // namespace kiln::onnx
