#include "runtime/collective/algorithms/arithmetic.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/types/span.h"
#include "runtime/collective/algorithms/narrow_floats.h"
#include "runtime/collective/algorithms/narrow_vectors.h"

namespace kiln::runtime::collective {
namespace {

// How an item is stored, and what it is combined as: Load gives an accumulator.
template <typename T>
struct Plain {
  static constexpr bool kPlain = true;  // items are accumulators, as they are
  using Item = T;
  using Acc = T;
  static T Load(T item) { return item; }
  static T Store(T acc) { return acc; }
};
struct Bool {
  static constexpr bool kPlain = false;
  static VectorReduce InVectors(ReduceOp) { return nullptr; }
  using Item = uint8_t;
  using Acc = uint8_t;
  // Any byte but 0 is true.
  static uint8_t Load(uint8_t item) { return item != 0 ? 1 : 0; }
  static uint8_t Store(uint8_t acc) { return acc; }
};
template <v1::DType kDType, typename Format>
struct Narrow {
  static constexpr bool kPlain = false;
  static VectorReduce InVectors(ReduceOp op) { return VectorReduceOf(kDType, op); }
  using Item = typename Format::Bits;
  using Acc = float;
  static float Load(Item item) { return Format::Widen(item); }
  static Item Store(float acc) { return Format::Narrow(acc); }
};

// Wraps: unsigned and at least as wide as int, so that nothing overflows.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

struct Sum {
  static constexpr ReduceOp kOp = ReduceOp::kSum;
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
};
struct Prod {
  static constexpr ReduceOp kOp = ReduceOp::kProd;
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else {
      return a * b;
    }
  }
};
struct Max {
  static constexpr ReduceOp kOp = ReduceOp::kMax;
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a > b ? a : b;
    } else {
      const T greater = a > b ? a : b;  // b if that is NaN
      return a != a ? a : greater;
    }
  }
};
struct Or {
  static constexpr ReduceOp kOp = ReduceOp::kSum;
  static uint8_t Of(uint8_t a, uint8_t b) { return a | b; }
};
struct And {
  static constexpr ReduceOp kOp = ReduceOp::kProd;
  static uint8_t Of(uint8_t a, uint8_t b) { return a & b; }
};

// Sum, product, maximum.
struct Row {
  v1::DType dtype;
  const Arithmetic* by_op[3];
};

// Where a value goes, or comes from, is the same place for all tensors: no element
// depends on another, even if an output is an input.
#define KILN_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")

namespace any_machine {
#include "runtime/collective/algorithms/arithmetic_loops.inc"
}  // namespace any_machine

// The loops again for wider vectors; where the program runs it takes those of its machine. (Sanitizers' builds are
// slow enough to compile as it is.)
#if defined(__x86_64__) && !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
#define KILN_WIDE_VECTORS
#pragma clang attribute push(__attribute__((target("arch=x86-64-v3"))), apply_to = function)
namespace x86_64_v3 {
#include "runtime/collective/algorithms/arithmetic_loops.inc"
}  // namespace x86_64_v3
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4"))), apply_to = function)
namespace x86_64_v4 {
#include "runtime/collective/algorithms/arithmetic_loops.inc"
}  // namespace x86_64_v4
#pragma clang attribute pop
#endif

absl::Span<const Row> RowsOfThisMachine() {
#if defined(KILN_WIDE_VECTORS)
  if (__builtin_cpu_supports("x86-64-v4")) return x86_64_v4::kRows;
  if (__builtin_cpu_supports("x86-64-v3")) return x86_64_v3::kRows;
#endif
  return any_machine::kRows;
}

}  // namespace

const Arithmetic* ArithmeticOf(v1::DType dtype, ReduceOp op) {
  static const absl::Span<const Row> rows = RowsOfThisMachine();
  for (const Row& row : rows) {
    if (row.dtype == dtype) return row.by_op[static_cast<int>(op)];
  }
  return nullptr;
}

uint32_t ItemBytes(v1::DType dtype) {
  const Arithmetic* arithmetic = ArithmeticOf(dtype, ReduceOp::kSum);
  return arithmetic == nullptr ? 0 : arithmetic->item_bytes;
}

}  // namespace kiln::runtime::collective
