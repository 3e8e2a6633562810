// Tested by tests/onnx/byte_products_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/byte_products.h"

#include <algorithm>
#include <limits>

namespace kiln::onnx {

using namespace client;  // NOLINT: the builder's functions are this room's words

namespace {

// Whether a zero point is 0 in every call.
bool IsZero(Node& node, Tensor zero) {
  if (!zero.valid()) return true;
  const HostTensor* held = node.Held(zero);
  return held != nullptr && std::all_of(held->bytes.begin(), held->bytes.end(), [](char byte) { return byte == 0; });
}

// Adds `rows` rows of so many numbers each. A column alone is added up in a register.
template <typename T>
void AddRows(const char* bytes, int64_t rows, size_t width, uint32_t* sums) {
  const auto number = [bytes](size_t at) { return static_cast<uint32_t>(int32_t{static_cast<T>(bytes[at])}); };
  const auto count = static_cast<size_t>(rows) * width;
  if (width == 1) {
    uint32_t sum = 0;
    for (size_t at = 0; at < count; ++at) sum += number(at);
    *sums += sum;
    return;
  }
  for (size_t row = 0; row < count; row += width) {
    for (size_t i = 0; i < width; ++i) sums[i] += number(row + i);
  }
}

// x's zero point times the sums of the weight over `axis` and `more` after it; the axes around them are left.
Tensor Excess(Node& node, const ByteFactors& factors, int64_t axis, int64_t more) {
  const HostTensor* held = node.Held(factors.weight);
  Shape kept;
  int64_t after = 1, summed = 1;
  for (int64_t i = 0; held != nullptr && i < factors.weight.rank(); ++i) {
    if (i >= axis && i <= axis + more) {
      summed *= held->shape[i];
    } else {
      kept.push_back(held->shape[i]);
      if (i > axis) after *= held->shape[i];
    }
  }
  const int64_t count = ElementCount(kept).value_or(0);
  const uint32_t times = factors.number ? static_cast<uint32_t>(*factors.number) : 1;
  Tensor& added = node.AddedUp({factors.weight.node(), axis, more, times});
  // A sum is four bytes: of fewer numbers it is no less than they are.
  const bool few = held == nullptr || count == 0 || 4 * count > static_cast<int64_t>(held->bytes.size());
  if (!added.valid() && (few || !node.MayAddUp(static_cast<int64_t>(held->bytes.size()), 4 * count))) {
    std::vector<int64_t> axes(static_cast<size_t>(more) + 1);
    std::iota(axes.begin(), axes.end(), axis);
    const Tensor sums = Sum(Cast(factors.weight, v1::INT32), axes);
    return factors.number ? sums * *factors.number : sums * factors.zero;
  }
  if (!added.valid()) {
    std::vector<uint32_t> sums(static_cast<size_t>(count));
    const auto width = static_cast<size_t>(after);
    const auto add = held->dtype == v1::INT8 ? AddRows<int8_t> : AddRows<uint8_t>;
    for (size_t begin = 0; begin < sums.size(); begin += width)
      add(held->bytes.data() + begin * static_cast<size_t>(summed), summed, width, &sums[begin]);
    std::vector<int32_t> numbers(sums.size());
    std::transform(sums.begin(), sums.end(), numbers.begin(),
                   [times](uint32_t sum) { return static_cast<int32_t>(sum * times); });
    added = node.Make(HostTensor::Of(std::move(kept), numbers));
  }
  return factors.number ? added : added * factors.zero;
}

}  // namespace

bool IsByte(v1::DType dtype) { return dtype == v1::INT8 || dtype == v1::UINT8; }

bool IsPadded(const Window& window) {
  const auto some = [](const std::vector<int64_t>& list) {
    return std::any_of(list.begin(), list.end(), [](int64_t one) { return one != 0; });
  };
  return some(window.before) || some(window.after) || some(window.beyond);
}

std::optional<ByteFactors> ByteFactorsOf(Node& node, Tensor x, Tensor zero, Tensor weight, Tensor weight_zero,
                                         bool padded) {
  if (!IsByte(x.dtype()) || !IsByte(weight.dtype()) || !IsZero(node, weight_zero)) return std::nullopt;
  ByteFactors factors{x, weight, 0, {}};
  if (!zero.valid()) return factors;
  if (zero.dtype() != x.dtype() || zero.rank() > 1 || (zero.rank() == 1 && zero.size(0) != 1)) return std::nullopt;
  if (const HostTensor* held = node.Held(zero)) {
    const char byte = held->bytes[0];
    factors.number = x.dtype() == v1::INT8 ? int32_t{static_cast<int8_t>(byte)} : int32_t{static_cast<uint8_t>(byte)};
    return factors;
  }
  if (padded) return std::nullopt;
  factors.number.reset();
  factors.zero = Reshape(Cast(zero, v1::INT32), Sizes());
  return factors;
}

absl::StatusOr<Tensor> ConvolvedBytes(Node& node, const ByteFactors& factors, int64_t groups, const Window& window) {
  KILN_ASSIGN_OR_RETURN(const Tensor sum, SumOfWindows(node, factors.x, factors.weight, groups, window,
                                                       {.dtype = v1::INT32, .fill = factors.number.value_or(0)}));
  const int64_t rank = factors.weight.rank();
  if (!sum.valid() || factors.number == 0) return sum;
  return sum - Along(Excess(node, factors, 1, rank - 2), 1, rank);
}

Tensor MultipliedBytes(Node& node, const ByteFactors& factors, bool turned_x, bool turned_weight) {
  const Tensor left = Cast(factors.x, v1::INT32), right = Cast(factors.weight, v1::INT32);
  const Tensor sum = Matmul(turned_x ? Transpose(left) : left, turned_weight ? Transpose(right) : right);
  if (!sum.valid() || factors.number == 0) return sum;
  const int64_t rank = factors.weight.rank();
  const Tensor excess = Excess(node, factors, rank == 1 ? 0 : rank - (turned_weight ? 1 : 2), 0);
  // One number a column, the same in all rows.
  return sum - (rank > 1 && factors.x.rank() > 1 ? Unsqueeze(excess, -2) : excess);
}

std::optional<ScaledFactors> ScaledFactorsOf(Node& node, int64_t channels, int64_t terms, bool padded) {
  const Dequantized *x = node.DequantizedFrom(0), *weight = node.DequantizedFrom(1);
  if (x == nullptr || weight == nullptr || x->axis || (weight->axis && *weight->axis != channels)) return std::nullopt;
  // A float's sum has no end that integers of this size could pass.
  const int64_t greatest = 255 * (weight->values.dtype() == v1::INT8 ? 128 : 255);
  if (terms > std::numeric_limits<int32_t>::max() / greatest) return std::nullopt;
  const auto factors = ByteFactorsOf(node, x->values, x->zero, weight->values, weight->zero, padded);
  if (!factors) return std::nullopt;
  return ScaledFactors{*factors, x->scale * weight->scale};
}

}  // namespace kiln::onnx
