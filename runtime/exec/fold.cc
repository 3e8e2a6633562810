#include "runtime/exec/fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/dtype_names.h"
#include "base/float_bits.h"

namespace kiln::runtime {
namespace {

template <typename T>
T Combine(v1::Op op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == v1::ADD) return a + b;
    if (op == v1::MUL) return a * b;
    if (std::isnan(a)) return a;
    return std::isnan(b) || a < b ? b : a;
  } else {
    // Wide enough that no product of two is signed on the way.
    using Wide = uint64_t;
    if (op == v1::ADD) return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    if (op == v1::MUL) return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    return std::max(a, b);
  }
}

template <typename T, v1::Op kOp>
void FoldWith(const void* from, void* to, uint64_t count) {
  const T* source = static_cast<const T*>(from);
  T* target = static_cast<T*>(to);
  for (uint64_t i = 0; i < count; ++i) target[i] = Combine<T>(kOp, target[i], source[i]);
}

template <typename T>
void FoldAs(v1::Op op, const void* from, void* to, uint64_t count) {
  switch (op) {
    case v1::ADD: return FoldWith<T, v1::ADD>(from, to, count);
    case v1::MUL: return FoldWith<T, v1::MUL>(from, to, count);
    default: return FoldWith<T, v1::MAX>(from, to, count);
  }
}

// Float formats that the host does not compute with.
template <typename Bits>
void FoldBits(v1::DType dtype, v1::Op op, const void* from, void* to, uint64_t count) {
  const Bits* source = static_cast<const Bits*>(from);
  Bits* target = static_cast<Bits*>(to);
  for (uint64_t i = 0; i < count; ++i) {
    const double folded = Combine<double>(op, BitsToFloat(dtype, target[i]), BitsToFloat(dtype, source[i]));
    target[i] = static_cast<Bits>(FloatToBits(dtype, folded));
  }
}

// 0 or 1 each.
void FoldBools(v1::Op op, const void* from, void* to, uint64_t count) {
  const uint8_t* source = static_cast<const uint8_t*>(from);
  uint8_t* target = static_cast<uint8_t*>(to);
  for (uint64_t i = 0; i < count; ++i)
    target[i] = op == v1::MUL ? target[i] & source[i] : static_cast<uint8_t>(target[i] | source[i]);
}

}  // namespace

bool CanFold(v1::DType dtype, v1::Op op) {
  return (op == v1::ADD || op == v1::MUL || op == v1::MAX) && RowOf(dtype).bits >= 8;
}

void Fold(v1::DType dtype, v1::Op op, const void* from, void* to, uint64_t count) {
  KILN_CHECK(CanFold(dtype, op));
  switch (dtype) {
    case v1::BOOL: return FoldBools(op, from, to, count);
    case v1::INT8: return FoldAs<int8_t>(op, from, to, count);
    case v1::INT16: return FoldAs<int16_t>(op, from, to, count);
    case v1::INT32: return FoldAs<int32_t>(op, from, to, count);
    case v1::INT64: return FoldAs<int64_t>(op, from, to, count);
    case v1::UINT8: return FoldAs<uint8_t>(op, from, to, count);
    case v1::UINT16: return FoldAs<uint16_t>(op, from, to, count);
    case v1::UINT32: return FoldAs<uint32_t>(op, from, to, count);
    case v1::UINT64: return FoldAs<uint64_t>(op, from, to, count);
    case v1::FLOAT32: return FoldAs<float>(op, from, to, count);
    case v1::FLOAT64: return FoldAs<double>(op, from, to, count);
    default:
      if (RowOf(dtype).bits == 16) return FoldBits<uint16_t>(dtype, op, from, to, count);
      return FoldBits<uint8_t>(dtype, op, from, to, count);
  }
}

}  // namespace kiln::runtime
