// Reductions, softmax, layer normalization: one pass over memory, the further ones
// of a row in the cache.
#include <cmath>
#include <limits>
#include <memory>

#include "tests/bench/suite/hand.h"
#include "tests/bench/suite/hand_vector.h"
#include "tests/bench/suite/peers.h"

namespace kiln::bench {
namespace {

// Each kernel is written once as a template that is inlined, and compiled for every
// generation where a function of its own calls it.
template <typename Op>
[[gnu::always_inline]] inline float ReduceRun(const float* x, int64_t count) {
  Vector a = At(x), b = a, c = a, d = a;
  if (Op::Join(1, 1) != 1) a = b = c = d = Vector{};  // a sum begins with nothing
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    Op::Do(a, At(x + i));
    Op::Do(b, At(x + i + kLanes));
    Op::Do(c, At(x + i + 2 * kLanes));
    Op::Do(d, At(x + i + 3 * kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) Op::Do(a, At(x + i));
  Op::Do(a, b);
  Op::Do(c, d);
  Op::Do(a, c);
  float reduced = Op::Reduce(a);
  for (; i < count; ++i) reduced = Op::Join(reduced, x[i]);
  return reduced;
}

// The columns [begin, end) of `rows` rows that are `width` apart, the results in the
// first-level cache meanwhile.
template <typename Op>
[[gnu::always_inline]] inline void ReduceColumns(const float* x, float* y, int64_t rows, int64_t width, int64_t begin,
                                                 int64_t end) {
  constexpr int64_t kPanel = 4096;
  const int64_t whole = begin + (end - begin) / kLanes * kLanes;
  for (int64_t i = whole; i < end; ++i) {
    y[i] = x[i];
    for (int64_t row = 1; row < rows; ++row) y[i] = Op::Join(y[i], x[row * width + i]);
  }
  end = whole;
  for (int64_t panel = begin; panel < end; panel += kPanel) {
    const int64_t stop = std::min(end, panel + kPanel);
    for (int64_t i = panel; i < stop; ++i) y[i] = x[i];
    int64_t row = 1;
    for (; row + 4 <= rows; row += 4) {
      const float* r = x + row * width;
      for (int64_t i = panel; i < stop; i += kLanes) {
        Vector v = At(y + i);
        Op::Do(v, At(r + i));
        Op::Do(v, At(r + width + i));
        Op::Do(v, At(r + 2 * width + i));
        Op::Do(v, At(r + 3 * width + i));
        At(y + i) = v;
      }
    }
    for (; row < rows; ++row) {
      for (int64_t i = panel; i < stop; i += kLanes) Op::Do(At(y + i), At(x + row * width + i));
    }
  }
}

#define KILN_BENCH_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]

KILN_BENCH_CLONES float SumRun(const float* x, int64_t count) { return ReduceRun<AddTo>(x, count); }
KILN_BENCH_CLONES float MaxRun(const float* x, int64_t count) { return ReduceRun<MaxWith>(x, count); }
KILN_BENCH_CLONES void SumColumns(const float* x, float* y, int64_t rows, int64_t width, int64_t begin, int64_t end) {
  ReduceColumns<AddTo>(x, y, rows, width, begin, end);
}
KILN_BENCH_CLONES void MaxColumns(const float* x, float* y, int64_t rows, int64_t width, int64_t begin, int64_t end) {
  ReduceColumns<MaxWith>(x, y, rows, width, begin, end);
}

KILN_BENCH_CLONES void SoftmaxRow(const float* x, float* y, int64_t count) {
  const float most = ReduceRun<MaxWith>(x, count);
  Vector sums = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    Vector v = At(x + i) - most;
    ExpOf(v);
    At(y + i) = v;
    sums += v;
  }
  const float scale = 1 / Total(sums);
  for (int64_t i = 0; i < count; i += kLanes) At(y + i) *= scale;
}

// log(sum(e^x)) less the element `label`.
KILN_BENCH_CLONES float CrossEntropyRow(const float* x, int32_t label, int64_t count) {
  const float most = ReduceRun<MaxWith>(x, count);
  Vector sums = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    Vector v = At(x + i) - most;
    ExpOf(v);
    sums += v;
  }
  return std::log(Total(sums)) + most - x[label];
}

KILN_BENCH_CLONES void LayerNormRow(const float* x, const float* weight, const float* bias, float* y, int64_t count) {
  const float mean = ReduceRun<AddTo>(x, count) / static_cast<float>(count);
  Vector a = {}, b = {};
  for (int64_t i = 0; i + kLanes < count; i += 2 * kLanes) {
    const Vector v = At(x + i) - mean, w = At(x + i + kLanes) - mean;
    a += v * v;
    b += w * w;
  }
  const Vector squares = a + b;
  const float scale = 1 / std::sqrt(Total(squares) / static_cast<float>(count) + 1e-5f);
  for (int64_t i = 0; i < count; i += kLanes) At(y + i) = (At(x + i) - mean) * scale * At(weight + i) + At(bias + i);
}

using Run = float (*)(const float* x, int64_t count);

template <typename RowFunction>
Peer EachRow(int64_t rows, RowFunction function) {
  return {"hand", [=](const Operands& of) -> Call {
            return {[=] {
              of.team.For(rows, [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) function(of, row);
              });
            }};
          }};
}

}  // namespace

Peer HandReduceAll(Reduce reduce_op, int64_t count) {
  return {"hand", [=](const Operands& of) -> Call {
            return {[=] {
              const Run run = reduce_op == Reduce::kSum ? SumRun : MaxRun;
              // Parts of 4 MiB, so that rounding does not grow with the whole.
              constexpr int64_t kPart = 1 << 20;
              std::vector<float> parts(static_cast<size_t>((count + kPart - 1) / kPart * of.team.threads()));
              const int64_t part =
                  (count + static_cast<int64_t>(parts.size()) - 1) / static_cast<int64_t>(parts.size());
              of.team.For(static_cast<int64_t>(parts.size()), [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  parts[static_cast<size_t>(i)] = run(of.in[0] + i * part, std::min(part, count - i * part));
                }
              });
              of.out[0] = parts.size() < kLanes ? parts[0] : run(parts.data(), static_cast<int64_t>(parts.size()));
              for (size_t i = 1; i < parts.size() && parts.size() < kLanes; ++i) {
                of.out[0] = reduce_op == Reduce::kSum ? of.out[0] + parts[i] : std::max(of.out[0], parts[i]);
              }
            }};
          }};
}

Peer HandReduceRows(Reduce reduce_op, int64_t rows, int64_t columns) {
  const Run run = reduce_op == Reduce::kSum ? SumRun : MaxRun;
  return EachRow(rows, [=](const Operands& of, int64_t row) { of.out[row] = run(of.in[0] + row * columns, columns); });
}

Peer HandReduceColumns(Reduce reduce_op, int64_t rows, int64_t columns) {
  const auto run = reduce_op == Reduce::kSum ? SumColumns : MaxColumns;
  return {"hand", [=](const Operands& of) -> Call {
            return {[=] {
              of.team.For(
                  columns, [&](int64_t begin, int64_t end) { run(of.in[0], of.out, rows, columns, begin, end); },
                  kLanes);
            }};
          }};
}

Peer HandSoftmax(int64_t rows, int64_t columns) {
  return EachRow(rows, [=](const Operands& of, int64_t row) {
    SoftmaxRow(of.in[0] + row * columns, of.out + row * columns, columns);
  });
}

Peer HandCrossEntropy(int64_t rows, int64_t columns) {
  return EachRow(rows, [=](const Operands& of, int64_t row) {
    const auto* labels = reinterpret_cast<const int32_t*>(of.in[1]);
    of.out[row] = CrossEntropyRow(of.in[0] + row * columns, labels[row], columns);
  });
}

Peer HandLayerNorm(int64_t rows, int64_t columns) {
  return EachRow(rows, [=](const Operands& of, int64_t row) {
    LayerNormRow(of.in[0] + row * columns, of.in[1], of.in[2], of.out + row * columns, columns);
  });
}

Peer AttentionOf(const std::string& name, SingleSgemm (*find)(), int64_t heads, int64_t length, int64_t width) {
  return {name + " + hand", [=](const Operands& of) -> Call {
            const SingleSgemm sgemm = find();
            if (sgemm == nullptr) return {};
            // A head's scores, for each thread; the queries are scaled with them.
            const auto scores = std::make_shared<std::vector<float>>(static_cast<size_t>(length * length * heads));
            return {[=] {
              of.team.For(heads, [&](int64_t begin, int64_t end) {
                float* const table = scores->data() + begin * length * length;
                const float scale = 1 / std::sqrt(static_cast<float>(width));
                for (int64_t head = begin; head < end; ++head) {
                  const int64_t at = head * length * width;
                  sgemm(true, length, length, width, scale, of.in[0] + at, of.in[1] + at, table);
                  for (int64_t row = 0; row < length; ++row)
                    SoftmaxRow(table + row * length, table + row * length, length);
                  sgemm(false, length, width, length, 1, table, of.in[2] + at, of.out + at);
                }
              });
            }};
          }};
}

}  // namespace kiln::bench
