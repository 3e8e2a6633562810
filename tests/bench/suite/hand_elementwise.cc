// Elementwise loops, transposition, a running sum, rows of a table.
#include <dlfcn.h>
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "tests/bench/suite/hand.h"
#include "tests/bench/suite/hand_vector.h"

namespace kiln::bench {
namespace {

#define KILN_BENCH_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]

// A whole line past the caches, a quarter at a time as every x86 can.
[[gnu::always_inline]] inline void Stream(float* to, const Vector& v) {
  for (int part = 0; part < 4; ++part) {
    _mm_stream_ps(to + 4 * part, _mm_set_ps(v[4 * part + 3], v[4 * part + 2], v[4 * part + 1], v[4 * part]));
  }
}

KILN_BENCH_CLONES void MulAdd(const float* a, const float* b, const float* c, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) At(y + i) = At(a + i) * At(b + i) + At(c + i);
}
KILN_BENCH_CLONES void MulAddStreamed(const float* a, const float* b, const float* c, float* y, int64_t begin,
                                      int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) {
    const Vector v = At(a + i) * At(b + i) + At(c + i);
    Stream(y + i, v);
  }
  _mm_sfence();
}

// elementwise_bench.cc's chain of eight operations.
[[gnu::always_inline]] inline void ChainOf(Vector& v, const Vector& x, const Vector& y) {
  v = (x * y + x) * 0.5f - y;
  v = v > x ? v : x;
  v = (v * v + 1.0f) * y;
}
KILN_BENCH_CLONES void Chain(const float* x, const float* y, float* z, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) ChainOf(At(z + i), At(x + i), At(y + i));
}
KILN_BENCH_CLONES void ChainStreamed(const float* x, const float* y, float* z, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) {
    Vector v;
    ChainOf(v, At(x + i), At(y + i));
    Stream(z + i, v);
  }
  _mm_sfence();
}

KILN_BENCH_CLONES void Exp(const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) {
    Vector v = At(x + i);
    ExpOf(v);
    At(y + i) = v;
  }
}

using Lanes = std::make_integer_sequence<int, kLanes>;

// A square of 16 x 16, in registers: stage by stage the quarters of each square of
// twice `step` change places.
template <int step, int... lane>
[[gnu::always_inline]] inline void SwapQuarters(Vector (&rows)[kLanes], std::integer_sequence<int, lane...>) {
  for (int row = 0; row < kLanes; ++row) {
    if (row & step) continue;
    const Vector a = rows[row], b = rows[row + step];
    rows[row] = __builtin_shufflevector(a, b, (lane & step ? lane - step + 16 : lane)...);
    rows[row + step] = __builtin_shufflevector(a, b, (lane & step ? lane + 16 : lane + step)...);
  }
}

// Rows [begin, end) of the result (columns of x), of n x n.
KILN_BENCH_CLONES void TransposeRows(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 64;
  for (int64_t i0 = begin; i0 < end; i0 += kBlock) {
    for (int64_t j0 = 0; j0 < n; j0 += kBlock) {
      for (int64_t i = i0; i < std::min(end, i0 + kBlock); i += kLanes) {
        for (int64_t j = j0; j < std::min(n, j0 + kBlock); j += kLanes) {
          Vector rows[kLanes];
          for (int row = 0; row < kLanes; ++row) rows[row] = At(x + (j + row) * n + i);
          SwapQuarters<1>(rows, Lanes());
          SwapQuarters<2>(rows, Lanes());
          SwapQuarters<4>(rows, Lanes());
          SwapQuarters<8>(rows, Lanes());
          for (int row = 0; row < kLanes; ++row) At(y + (i + row) * n + j) = rows[row];
        }
      }
    }
  }
}

// Zeros, then all lanes but the last `by`.
template <int by, int... lane>
[[gnu::always_inline]] inline void AddMoved(Vector& v, std::integer_sequence<int, lane...>) {
  const Vector zero = {};
  v += __builtin_shufflevector(v, zero, (lane < by ? 16 : lane - by)...);
}

// Adds to each lane those before it, in four steps; then all that came before.
KILN_BENCH_CLONES void RunningSum(const float* x, float* y, int64_t count) {
  Vector before = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    Vector v = At(x + i);
    AddMoved<1>(v, Lanes());
    AddMoved<2>(v, Lanes());
    AddMoved<4>(v, Lanes());
    AddMoved<8>(v, Lanes());
    At(y + i) = v + before;
    before += v[15];
  }
}

// One function of glibc's libmvec for each width of vector; no result is null.
using Mvec16 = __m512 (*)(__m512);
using Mvec8 = __m256 (*)(__m256);

[[gnu::target("avx512f")]] void Each16(Mvec16 function, const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += 16) _mm512_storeu_ps(y + i, function(_mm512_loadu_ps(x + i)));
}
[[gnu::target("avx2")]] void Each8(Mvec8 function, const float* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += 8) _mm256_storeu_ps(y + i, function(_mm256_loadu_ps(x + i)));
}

template <typename Loop>
Peer Elementwise(const char* name, int64_t count, Loop loop) {
  return {name, [=](const Operands& of) -> Call {
            return {[=] { of.team.For(count, [&](int64_t begin, int64_t end) { loop(of, begin, end); }, kLanes); }};
          }};
}

}  // namespace

Peer HandMulAdd(int64_t count, bool streamed) {
  return Elementwise(streamed ? "hand, streamed" : "hand", count, [=](const Operands& of, int64_t begin, int64_t end) {
    (streamed ? MulAddStreamed : MulAdd)(of.in[0], of.in[1], of.in[2], of.out, begin, end);
  });
}

Peer HandChain(int64_t count, bool streamed) {
  return Elementwise(streamed ? "hand, streamed" : "hand", count, [=](const Operands& of, int64_t begin, int64_t end) {
    (streamed ? ChainStreamed : Chain)(of.in[0], of.in[1], of.out, begin, end);
  });
}

Peer HandExp(int64_t count) {
  return Elementwise("hand", count,
                     [](const Operands& of, int64_t begin, int64_t end) { Exp(of.in[0], of.out, begin, end); });
}

Peer Mvec(const std::string& function, int64_t count) {
  return {"libmvec", [=](const Operands& of) -> Call {
            __builtin_cpu_init();
            static void* const library = OpenLibrary({"libmvec.so.1"});
            const bool wide = __builtin_cpu_supports("avx512f");
            if (library == nullptr || !__builtin_cpu_supports("avx2")) return {};
            void* const found = dlsym(library, ((wide ? "_ZGVeN16v_" : "_ZGVdN8v_") + function).c_str());
            if (found == nullptr) return {};
            const auto loop = [=](const Operands& of, int64_t begin, int64_t end) {
              if (wide) return Each16(reinterpret_cast<Mvec16>(found), of.in[0], of.out, begin, end);
              Each8(reinterpret_cast<Mvec8>(found), of.in[0], of.out, begin, end);
            };
            return Elementwise("libmvec", count, loop).bind(of);
          }};
}

Peer HandTranspose(int64_t n) {
  return Elementwise("hand", n, [=](const Operands& of, int64_t begin, int64_t end) {
    TransposeRows(of.in[0], of.out, n, begin, end);
  });
}

Peer HandRunningSum(int64_t count) {
  return {"hand", [=](const Operands& of) -> Call { return {[=] { RunningSum(of.in[0], of.out, count); }}; }};
}

Peer HandGather(int64_t ids, int64_t width) {
  return {"memcpy", [=](const Operands& of) -> Call {
            return {[=] {
              const auto* id = reinterpret_cast<const int32_t*>(of.in[1]);
              of.team.For(ids, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  std::memcpy(of.out + i * width, of.in[0] + id[i] * width, static_cast<size_t>(width) * sizeof(float));
                }
              });
            }};
          }};
}

}  // namespace kiln::bench
