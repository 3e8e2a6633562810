#include "runtime/collective/arithmetic.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "runtime/collective/narrow_floats.h"

namespace kiln::runtime::collective {
namespace {

// How an item is stored, and what it is combined as: Load gives an accumulator.
template <typename T>
struct Plain {
  using Item = T;
  using Acc = T;
  static T Load(T item) { return item; }
  static T Store(T acc) { return acc; }
};
struct Bool {
  using Item = uint8_t;
  using Acc = uint8_t;
  // Any byte but 0 is true.
  static uint8_t Load(uint8_t item) { return item != 0 ? 1 : 0; }
  static uint8_t Store(uint8_t acc) { return acc; }
};
template <typename Format>
struct Narrow {
  using Item = typename Format::Bits;
  using Acc = float;
  static float Load(Item item) { return Format::Widen(item); }
  static Item Store(float acc) { return Format::Narrow(acc); }
};

// Wraps: unsigned and at least as wide as int, so that nothing overflows.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

struct Sum {
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
  static uint8_t Of(uint8_t a, uint8_t b) { return a | b; }
};
struct And {
  static uint8_t Of(uint8_t a, uint8_t b) { return a & b; }
};

// Elements that are worked on at once: their accumulators stay in the nearest cache.
constexpr uint64_t kBlock = 2048;

template <typename S, typename Op>
struct Loops {
  using Item = typename S::Item;
  using Acc = typename S::Acc;
  static constexpr bool kSame = std::is_same_v<Item, Acc>;

  static void Reduce(const void* const* inputs, uint32_t input_count, void* const* outputs, uint32_t output_count,
                     uint64_t elements) {
    alignas(64) Acc acc[kBlock];
    for (uint64_t begin = 0; begin < elements; begin += kBlock) {
      const uint64_t size = std::min(kBlock, elements - begin);
      const auto input = [&](uint32_t i) { return static_cast<const Item*>(inputs[i]) + begin; };
      const auto output = [&](uint32_t j) { return static_cast<Item*>(outputs[j]) + begin; };
      uint32_t next = 1;
      if (input_count == 1) {
        Widen(input(0), acc, size);
      } else {
        Two(input(0), input(1), acc, size);
        next = 2;
      }
      for (; next + 1 < input_count; next += 2) Three(acc, input(next), input(next + 1), size);
      if (next < input_count) Add(acc, input(next), size);
      if constexpr (kSame) {
        for (uint32_t j = 0; j < output_count; ++j) std::memcpy(output(j), acc, size * sizeof(Item));
      } else {
        if (output_count == 0) continue;
        Narrowed(acc, output(0), size);
        for (uint32_t j = 1; j < output_count; ++j) std::memcpy(output(j), output(0), size * sizeof(Item));
      }
    }
  }

  static void Widen(const void* items, void* accumulators, uint64_t elements) {
    const auto* from = static_cast<const Item*>(items);
    auto* to = static_cast<Acc*>(accumulators);
    for (uint64_t i = 0; i < elements; ++i) to[i] = S::Load(from[i]);
  }
  static void Narrowed(const void* accumulators, void* items, uint64_t elements) {
    const auto* from = static_cast<const Acc*>(accumulators);
    auto* to = static_cast<Item*>(items);
    for (uint64_t i = 0; i < elements; ++i) to[i] = S::Store(from[i]);
  }
  static void Combine(void* into, const void* from, uint64_t elements) {
    auto* a = static_cast<Acc*>(into);
    const auto* b = static_cast<const Acc*>(from);
    for (uint64_t i = 0; i < elements; ++i) a[i] = Op::Of(a[i], b[i]);
  }

 private:
  static void Two(const Item* a, const Item* b, Acc* __restrict acc, uint64_t elements) {
    for (uint64_t i = 0; i < elements; ++i) acc[i] = Op::Of(S::Load(a[i]), S::Load(b[i]));
  }
  static void Three(Acc* __restrict acc, const Item* b, const Item* c, uint64_t elements) {
    for (uint64_t i = 0; i < elements; ++i) acc[i] = Op::Of(Op::Of(acc[i], S::Load(b[i])), S::Load(c[i]));
  }
  static void Add(Acc* __restrict acc, const Item* b, uint64_t elements) {
    for (uint64_t i = 0; i < elements; ++i) acc[i] = Op::Of(acc[i], S::Load(b[i]));
  }
};

template <typename S, typename Op>
constexpr Arithmetic kArithmetic = {sizeof(typename S::Item), sizeof(typename S::Acc), Loops<S, Op>::Reduce,
                                    Loops<S, Op>::Widen,      Loops<S, Op>::Narrowed,  Loops<S, Op>::Combine};

// Sum, product, maximum.
struct Row {
  v1::DType dtype;
  const Arithmetic* by_op[3];
};
template <typename S>
constexpr Row RowOf(v1::DType dtype) {
  return {dtype, {&kArithmetic<S, Sum>, &kArithmetic<S, Prod>, &kArithmetic<S, Max>}};
}

constexpr Row kRows[] = {
    {v1::BOOL, {&kArithmetic<Bool, Or>, &kArithmetic<Bool, And>, &kArithmetic<Bool, Or>}},
    RowOf<Plain<int8_t>>(v1::INT8),
    RowOf<Plain<int16_t>>(v1::INT16),
    RowOf<Plain<int32_t>>(v1::INT32),
    RowOf<Plain<int64_t>>(v1::INT64),
    RowOf<Plain<uint8_t>>(v1::UINT8),
    RowOf<Plain<uint16_t>>(v1::UINT16),
    RowOf<Plain<uint32_t>>(v1::UINT32),
    RowOf<Plain<uint64_t>>(v1::UINT64),
    RowOf<Plain<float>>(v1::FLOAT32),
    RowOf<Plain<double>>(v1::FLOAT64),
    RowOf<Narrow<Half>>(v1::FLOAT16),
    RowOf<Narrow<Brain>>(v1::BFLOAT16),
    RowOf<Narrow<Eight<v1::FLOAT8_E4M3>>>(v1::FLOAT8_E4M3),
    RowOf<Narrow<Eight<v1::FLOAT8_E5M2>>>(v1::FLOAT8_E5M2),
    RowOf<Narrow<Eight<v1::FLOAT8_E4M3_FNUZ>>>(v1::FLOAT8_E4M3_FNUZ),
    RowOf<Narrow<Eight<v1::FLOAT8_E5M2_FNUZ>>>(v1::FLOAT8_E5M2_FNUZ),
};

}  // namespace

const Arithmetic* ArithmeticOf(v1::DType dtype, ReduceOp op) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row.by_op[static_cast<int>(op)];
  }
  return nullptr;
}

uint32_t ItemBytes(v1::DType dtype) {
  const Arithmetic* arithmetic = ArithmeticOf(dtype, ReduceOp::kSum);
  return arithmetic == nullptr ? 0 : arithmetic->item_bytes;
}

}  // namespace kiln::runtime::collective
