// OpenBLAS and libxsmm.
#include "tests/bench/suite/peers.h"

#include <dlfcn.h>

#include <cstdlib>

namespace kiln::bench {
namespace {

// What of CBLAS is used, as its standard declares it.
enum { kRowMajor = 101, kNoTranspose = 111, kTranspose = 112 };

struct OpenBlas {
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                const float* b, int ldb, float beta, float* c, int ldc) = nullptr;
  void (*sgemv)(int order, int trans, int m, int n, float alpha, const float* a, int lda, const float* x, int incx,
                float beta, float* y, int incy) = nullptr;
  void (*set_num_threads)(int threads) = nullptr;
};

// SciPy's build, which is newer than Debian's, puts its name before each symbol.
const OpenBlas* FindOpenBlas() {
  static const OpenBlas* const found = [] {
    // Its workers spin for some 20 ms after a call unless told otherwise, on cores
    // that the next party wants: 2^18 cycles are 0.1 ms.
    setenv("OPENBLAS_THREAD_TIMEOUT", "18", 0);
    // It knows its machine best; some environments have it take a lesser one.
    for (const char* wish : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS"}) unsetenv(wish);
    auto* blas = new OpenBlas;
    void* const library = OpenLibrary({"libscipy_openblas.so", "libopenblas.so.0"});
    for (const std::string prefix : {"scipy_", ""}) {
      if (library == nullptr || blas->sgemm != nullptr) break;
      const auto bind = [&](auto& function, const char* name) {
        function =
            reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, (prefix + name).c_str()));
      };
      bind(blas->sgemm, "cblas_sgemm");
      bind(blas->sgemv, "cblas_sgemv");
      bind(blas->set_num_threads, "openblas_set_num_threads");
    }
    return blas;
  }();
  return found->sgemm != nullptr && found->sgemv != nullptr && found->set_num_threads != nullptr ? found : nullptr;
}

// One small product, its sizes fixed: column-major, no scaling.
using XsmmKernel = void (*)(const float* a, const float* b, float* c, ...);

XsmmKernel FindXsmmKernel(int n) {
  using Dispatch = XsmmKernel (*)(int m, int n, int k, const int* lda, const int* ldb, const int* ldc,
                                  const float* alpha, const float* beta, const int* flags, const int* prefetch);
  static void* const library = OpenLibrary({"libxsmm.so"});
  if (library == nullptr) return nullptr;
  const auto dispatch = reinterpret_cast<Dispatch>(dlsym(library, "libxsmm_smmdispatch"));
  const float one = 1, zero = 0;
  return dispatch == nullptr ? nullptr : dispatch(n, n, n, nullptr, nullptr, nullptr, &one, &zero, nullptr, nullptr);
}

void Sgemm(const OpenBlas& blas, int m, int n, int k, const float* a, const float* b, float* c,
           bool transpose_b = false) {
  blas.sgemm(kRowMajor, kNoTranspose, transpose_b ? kTranspose : kNoTranspose, m, n, k, 1, a, k, b, transpose_b ? k : n,
             0, c, n);
}

}  // namespace

void* OpenLibrary(const std::vector<std::string>& names) {
  const char* folder = std::getenv("KILN_PEERS");
  for (const std::string& name : names) {
    void* library = folder == nullptr ? nullptr : dlopen((std::string(folder) + "/" + name).c_str(), RTLD_NOW);
    if (library == nullptr) library = dlopen(name.c_str(), RTLD_NOW);
    if (library != nullptr) return library;
  }
  return nullptr;
}

SingleSgemm OpenBlasSingle() {
  const OpenBlas* blas = FindOpenBlas();
  if (blas == nullptr) return nullptr;
  blas->set_num_threads(1);
  return
      [blas](bool transpose_b, int64_t m, int64_t n, int64_t k, float scale, const float* a, const float* b, float* c) {
        blas->sgemm(kRowMajor, kNoTranspose, transpose_b ? kTranspose : kNoTranspose, static_cast<int>(m),
                    static_cast<int>(n), static_cast<int>(k), scale, a, static_cast<int>(k), b,
                    static_cast<int>(transpose_b ? k : n), 0, c, static_cast<int>(n));
      };
}

Peer OpenBlasSgemm(int64_t m, int64_t n, int64_t k, bool transpose_b) {
  return {"OpenBLAS", [=](const Operands& of) -> Call {
            const OpenBlas* blas = FindOpenBlas();
            if (blas == nullptr) return {};
            blas->set_num_threads(of.team.threads());
            return {[=] {
              Sgemm(*blas, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), of.in[0], of.in[1], of.out,
                    transpose_b);
            }};
          }};
}

Peer OpenBlasSgemv(int64_t m, int64_t n) {
  return {"OpenBLAS", [=](const Operands& of) -> Call {
            const OpenBlas* blas = FindOpenBlas();
            if (blas == nullptr) return {};
            blas->set_num_threads(of.team.threads());
            return {[=] {
              blas->sgemv(kRowMajor, kNoTranspose, static_cast<int>(m), static_cast<int>(n), 1, of.in[0],
                          static_cast<int>(n), of.in[1], 1, 0, of.out, 1);
            }};
          }};
}

Peer OpenBlasBatched(int64_t count, int64_t n) {
  return {"OpenBLAS", [=](const Operands& of) -> Call {
            const OpenBlas* blas = FindOpenBlas();
            if (blas == nullptr) return {};
            blas->set_num_threads(1);
            const int side = static_cast<int>(n);
            return {[=] {
              of.team.For(count, [&](int64_t begin, int64_t end) {
                for (int64_t at = begin * n * n; at < end * n * n; at += n * n) {
                  Sgemm(*blas, side, side, side, of.in[0] + at, of.in[1] + at, of.out + at);
                }
              });
            }};
          }};
}

Peer XsmmBatched(int64_t count, int64_t n) {
  return {"libxsmm", [=](const Operands& of) -> Call {
            const XsmmKernel kernel = FindXsmmKernel(static_cast<int>(n));
            if (kernel == nullptr) return {};
            return {[=] {
              of.team.For(count, [&](int64_t begin, int64_t end) {
                // Row-major matrices are the transposes of column-major ones.
                for (int64_t at = begin * n * n; at < end * n * n; at += n * n) {
                  kernel(of.in[1] + at, of.in[0] + at, of.out + at);
                }
              });
            }};
          }};
}

}  // namespace kiln::bench
