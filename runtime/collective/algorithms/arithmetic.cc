#include "runtime/collective/algorithms/arithmetic.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

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

// Loops are compiled again for wider vectors, and the machine's are taken when the
// program starts. (Sanitizers' runtimes are not there so early.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KILN_FOR_WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v3", "default")))
// Conversions are worth one more.
#define KILN_FOR_WIDER_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KILN_FOR_WIDE_VECTORS
#define KILN_FOR_WIDER_VECTORS
#endif

// Elements that are worked on at once: what is kept of them between two passes stays in
// a near cache, and every tensor is still read for long enough to be fetched ahead.
constexpr uint64_t kBlock = 8192;

// Where a value goes, or comes from, is the same place for all tensors: no element
// depends on another, even if an output is an input.
#if defined(__clang__)
#define KILN_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define KILN_ELEMENTWISE _Pragma("GCC ivdep")
#endif

// One pass over several tensors: each is read once and each output written once, which
// is what a pass costs; the arithmetic is free beside it. So many inputs and outputs are
// taken together as the machine follows streams well.
template <typename T, typename Op>
struct Passes {
  template <int kIn, int kOut>
  KILN_FOR_WIDE_VECTORS static void Run(const T* const* inputs, T* const* outputs, uint64_t elements) {
    const T* in[kIn];
    T* out[kOut];
    for (int i = 0; i < kIn; ++i) in[i] = inputs[i];
    for (int i = 0; i < kOut; ++i) out[i] = outputs[i];
    KILN_ELEMENTWISE
    for (uint64_t at = 0; at < elements; ++at) {
      T value = in[0][at];
      if constexpr (kIn > 1) value = Op::Of(value, in[1][at]);
      if constexpr (kIn > 2) value = Op::Of(value, in[2][at]);
      if constexpr (kIn > 3) value = Op::Of(value, in[3][at]);
      if constexpr (kIn > 4) value = Op::Of(value, in[4][at]);
      out[0][at] = value;
      if constexpr (kOut > 1) out[1][at] = value;
      if constexpr (kOut > 2) out[2][at] = value, out[3][at] = value;
      if constexpr (kOut > 4) {
        out[4][at] = value, out[5][at] = value;
        out[6][at] = value, out[7][at] = value;
      }
    }
  }

  using Pass = void (*)(const T* const*, T* const*, uint64_t);
  // By number of inputs; a last pass has 1, 2, 4 or 5 of them, and 1, 2, 4 or 8 outputs.
  template <int kIn>
  static Pass Last(uint32_t outputs) {
    return outputs >= 8 ? Run<kIn, 8> : outputs >= 4 ? Run<kIn, 4> : outputs >= 2 ? Run<kIn, 2> : Run<kIn, 1>;
  }

  static void Reduce(const void* const* inputs, uint32_t input_count, void* const* outputs, uint32_t output_count,
                     uint64_t elements) {
    if (output_count == 0) return;
    alignas(64) T acc[kBlock];
    for (uint64_t begin = 0; begin < elements; begin += kBlock) {
      const uint64_t size = std::min(kBlock, elements - begin);
      // The next inputs to take; what was taken is in acc, and acc the first of them.
      const T* in[5];
      T* out[8];
      uint32_t next = 0;
      const auto gather = [&](uint32_t most) {
        uint32_t taken = 0;
        if (next > 0) in[taken++] = acc;
        while (taken < most && next < input_count) in[taken++] = static_cast<const T*>(inputs[next++]) + begin;
        return taken;
      };
      T* const to_acc[] = {acc};
      for (;;) {
        const uint32_t left = input_count - next + (next > 0 ? 1 : 0);
        if (left == 1 || left == 2 || left == 4 || left == 5) break;
        // All but what a last pass takes.
        switch (gather(left == 3 ? 2 : left == 6 ? 3 : 4)) {
          case 2: Run<2, 1>(in, to_acc, size); break;
          case 3: Run<3, 1>(in, to_acc, size); break;
          default: Run<4, 1>(in, to_acc, size); break;
        }
      }
      const uint32_t taken = gather(5);
      const uint32_t at_once = output_count >= 8 ? 8 : output_count >= 4 ? 4 : output_count >= 2 ? 2 : 1;
      for (uint32_t i = 0; i < at_once; ++i) out[i] = static_cast<T*>(outputs[i]) + begin;
      const Pass last = taken == 1   ? Last<1>(at_once)
                        : taken == 2 ? Last<2>(at_once)
                        : taken == 4 ? Last<4>(at_once)
                                     : Last<5>(at_once);
      last(in, out, size);
      for (uint32_t i = at_once; i < output_count; ++i) {
        std::memcpy(static_cast<T*>(outputs[i]) + begin, out[0], size * sizeof(T));
      }
    }
  }
};

// Signed sums and products are the unsigned ones, bit for bit.
template <typename T, typename Op>
struct PassType {
  using Type = T;
};
template <typename T>
  requires std::is_integral_v<T>
struct PassType<T, Sum> {
  using Type = std::make_unsigned_t<T>;
};
template <typename T>
  requires std::is_integral_v<T>
struct PassType<T, Prod> {
  using Type = std::make_unsigned_t<T>;
};

template <typename S, typename Op>
struct Loops {
  using Item = typename S::Item;
  using Acc = typename S::Acc;

  static void Reduce(const void* const* inputs, uint32_t input_count, void* const* outputs, uint32_t output_count,
                     uint64_t elements) {
    if constexpr (S::kPlain) {
      Passes<typename PassType<Item, Op>::Type, Op>::Reduce(inputs, input_count, outputs, output_count, elements);
    } else {
      Converted(inputs, input_count, outputs, output_count, elements);
    }
  }

  // By way of accumulators that are not the items: those of some inputs are made and
  // combined in one pass, which with the last inputs makes items of them again.
  static void Converted(const void* const* inputs, uint32_t input_count, void* const* outputs, uint32_t output_count,
                        uint64_t elements) {
    if (output_count == 0) return;
    static const VectorReduce in_vectors = S::InVectors(Op::kOp);
    const uint64_t done = in_vectors == nullptr ? 0 : in_vectors(inputs, input_count, outputs, output_count, elements);
    constexpr uint64_t kSmall = kBlock / 4;  // read and written once a pass
    alignas(64) Acc acc[kSmall];
    for (uint64_t begin = done; begin < elements; begin += kSmall) {
      const uint64_t size = std::min(kSmall, elements - begin);
      auto* output = static_cast<Item*>(outputs[0]) + begin;
      for (uint32_t next = 0; next < input_count; next += kAtOnce) {
        const Item* in[kAtOnce];
        const uint32_t taken = std::min(kAtOnce, input_count - next);
        for (uint32_t i = 0; i < taken; ++i) in[i] = static_cast<const Item*>(inputs[next + i]) + begin;
        const bool last = next + taken == input_count;
        const auto pass = next == 0 ? PassOf<true>(taken, last) : PassOf<false>(taken, last);
        pass(in, acc, output, size);
      }
      for (uint32_t j = 1; j < output_count; ++j) {
        std::memcpy(static_cast<Item*>(outputs[j]) + begin, output, size * sizeof(Item));
      }
    }
  }

  static constexpr uint32_t kAtOnce = 4;
  using Pass = void (*)(const Item* const* in, Acc* acc, Item* output, uint64_t elements);

  template <bool kFirst>
  static Pass PassOf(uint32_t inputs, bool last) {
    if (!last) return Run<kAtOnce, kFirst, false>;
    return inputs == 1   ? Run<1, kFirst, true>
           : inputs == 2 ? Run<2, kFirst, true>
           : inputs == 3 ? Run<3, kFirst, true>
                         : Run<kAtOnce, kFirst, true>;
  }

  template <int kIn, bool kFirst, bool kLast>
  KILN_FOR_WIDER_VECTORS static void Run(const Item* const* inputs, Acc* acc, Item* output, uint64_t elements) {
    const Item* in[kIn];
    for (int i = 0; i < kIn; ++i) in[i] = inputs[i];
    KILN_ELEMENTWISE
    for (uint64_t at = 0; at < elements; ++at) {
      Acc value = S::Load(in[0][at]);
      if constexpr (!kFirst) value = Op::Of(acc[at], value);
      if constexpr (kIn > 1) value = Op::Of(value, S::Load(in[1][at]));
      if constexpr (kIn > 2) value = Op::Of(value, S::Load(in[2][at]));
      if constexpr (kIn > 3) value = Op::Of(value, S::Load(in[3][at]));
      if constexpr (kLast) {
        output[at] = S::Store(value);
      } else {
        acc[at] = value;
      }
    }
  }
  KILN_FOR_WIDER_VECTORS static void Widen(const void* items, void* accumulators, uint64_t elements) {
    const auto* from = static_cast<const Item*>(items);
    auto* to = static_cast<Acc*>(accumulators);
    KILN_ELEMENTWISE
    for (uint64_t i = 0; i < elements; ++i) to[i] = S::Load(from[i]);
  }
  KILN_FOR_WIDER_VECTORS static void Narrowed(const void* accumulators, void* items, uint64_t elements) {
    const auto* from = static_cast<const Acc*>(accumulators);
    auto* to = static_cast<Item*>(items);
    KILN_ELEMENTWISE
    for (uint64_t i = 0; i < elements; ++i) to[i] = S::Store(from[i]);
  }
  KILN_FOR_WIDE_VECTORS static void Combine(void* into, const void* from, uint64_t elements) {
    auto* a = static_cast<Acc*>(into);
    const auto* b = static_cast<const Acc*>(from);
    for (uint64_t i = 0; i < elements; ++i) a[i] = Op::Of(a[i], b[i]);
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
    RowOf<Narrow<v1::FLOAT16, Half>>(v1::FLOAT16),
    RowOf<Narrow<v1::BFLOAT16, Brain>>(v1::BFLOAT16),
    RowOf<Narrow<v1::FLOAT8_E4M3, Eight<v1::FLOAT8_E4M3>>>(v1::FLOAT8_E4M3),
    RowOf<Narrow<v1::FLOAT8_E5M2, Eight<v1::FLOAT8_E5M2>>>(v1::FLOAT8_E5M2),
    RowOf<Narrow<v1::FLOAT8_E4M3_FNUZ, Eight<v1::FLOAT8_E4M3_FNUZ>>>(v1::FLOAT8_E4M3_FNUZ),
    RowOf<Narrow<v1::FLOAT8_E5M2_FNUZ, Eight<v1::FLOAT8_E5M2_FNUZ>>>(v1::FLOAT8_E5M2_FNUZ),
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
