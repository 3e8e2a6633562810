// oneDNN, by its C API of version 2 (Debian's).
//
// Its functions take all structures by address and make them themselves, so a few
// declarations of our own are enough: a structure is a piece of storage, larger than
// any of theirs. That is less than a library or a process of its own would be, and
// building a bench needs no header of a peer.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "tests/bench/suite/peers.h"

namespace kiln::bench {
namespace {

using Dims = std::vector<int64_t>;

// Values of its enumerations.
enum { kCpu = 1, kInOrder = 1, kInference = 96 };
enum { kBfloat16 = 2, kFloat32 = 3, kInt8 = 5, kUint8 = 6 };
enum { kSource = 1, kResult = 17, kWeights = 33, kScale = 51, kShift = 52 };
enum { kUseScale = 8, kUseShift = 16 };
enum { kAnyTag = 1, kDirect = 1 };
enum { kSourceMd = 129, kWeightsMd = 131, kResultMd = 133 };

struct alignas(16) Structure {
  std::byte bytes[8192];
};
struct ExecArgument {
  int name;
  void* memory;
};

// Its functions: the return type, the name, the arguments.
#define KILN_BENCH_ONEDNN(FUNCTION)                                                                                   \
  FUNCTION(const int*, version, ())                                                                                   \
  FUNCTION(int, engine_create, (void** engine, int kind, size_t index))                                               \
  FUNCTION(int, stream_create, (void** stream, void* engine, unsigned flags))                                         \
  FUNCTION(int, stream_wait, (void* stream))                                                                          \
  FUNCTION(int, sgemm,                                                                                                \
           (char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,    \
            const float* b, int64_t ldb, float beta, float* c, int64_t ldc))                                          \
  FUNCTION(int, memory_desc_init_by_tag, (Structure * desc, int rank, const int64_t* dims, int dtype, int tag))       \
  FUNCTION(int, matmul_desc_init,                                                                                     \
           (Structure * desc, const void* source, const void* weights, const void* bias, const void* result))         \
  FUNCTION(int, softmax_forward_desc_init, (Structure * desc, int kind, const void* source, int axis))                \
  FUNCTION(int, layer_normalization_forward_desc_init,                                                                \
           (Structure * desc, int kind, const void* source, const void* statistics, float epsilon, unsigned flags))   \
  FUNCTION(int, convolution_forward_desc_init,                                                                        \
           (Structure * desc, int kind, int algorithm, const void* source, const void* weights, const void* bias,     \
            const void* result, const int64_t* strides, const int64_t* padding_before, const int64_t* padding_after)) \
  FUNCTION(int, eltwise_forward_desc_init,                                                                            \
           (Structure * desc, int kind, int algorithm, const void* source, float alpha, float beta))                  \
  FUNCTION(int, reorder_primitive_desc_create,                                                                        \
           (void** description, const void* from, void* from_engine, const void* to, void* to_engine,                 \
            const void* attributes))                                                                                  \
  FUNCTION(int, primitive_desc_create,                                                                                \
           (void** description, const void* desc, const void* attributes, void* engine, const void* hint))            \
  FUNCTION(const void*, primitive_desc_query_md, (const void* description, int what, int index))                      \
  FUNCTION(int, primitive_create, (void** primitive, const void* description))                                        \
  FUNCTION(int, primitive_execute, (const void* primitive, void* stream, int count, const ExecArgument* arguments))   \
  FUNCTION(int, memory_create, (void** memory, const void* desc, void* engine, void* data))

struct OneDnn {
#define KILN_BENCH_MEMBER(type, name, arguments) type(*name) arguments = nullptr;
  KILN_BENCH_ONEDNN(KILN_BENCH_MEMBER)
#undef KILN_BENCH_MEMBER
  void (*set_num_threads)(int threads) = nullptr;  // of the OpenMP it is built on
  void* engine = nullptr;
  void* stream = nullptr;

  bool Bind() {
    void* const library = OpenLibrary({"libdnnl.so.2"});
    void* const openmp = OpenLibrary({"libgomp.so.1"});
    if (library == nullptr || openmp == nullptr) return false;
    bool all = true;
    const auto bind = [&all](auto& function, void* from, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(from, symbol));
      all = all && function != nullptr;
    };
#define KILN_BENCH_BIND(type, name, arguments) bind(name, library, "dnnl_" #name);
    KILN_BENCH_ONEDNN(KILN_BENCH_BIND)
#undef KILN_BENCH_BIND
    bind(set_num_threads, openmp, "omp_set_num_threads");
    return all && *version() == 2 && engine_create(&engine, kCpu, 0) == 0 &&
           stream_create(&stream, engine, kInOrder) == 0;
  }
};
#undef KILN_BENCH_ONEDNN

// What is made is kept to the process's end.
const OneDnn* FindOneDnn() {
  static const OneDnn* const found = [] {
    auto library = std::make_unique<OneDnn>();
    return library->Bind() ? library.release() : nullptr;
  }();
  return found;
}

// The dense layout of this rank, the last axis innermost.
constexpr int kPlainTags[] = {0, 2, 3, 4, 5};

Structure Tagged(const OneDnn& dnn, const Dims& dims, int tag, int dtype = kFloat32) {
  Structure desc;
  KILN_CHECK(dnn.memory_desc_init_by_tag(&desc, static_cast<int>(dims.size()), dims.data(), dtype, tag) == 0);
  return desc;
}
Structure Plain(const OneDnn& dnn, const Dims& dims, int dtype = kFloat32) {
  return Tagged(dnn, dims, kPlainTags[dims.size()], dtype);
}

int DTypeOf(v1::DType dtype) {
  switch (dtype) {
    case v1::BFLOAT16: return kBfloat16;
    case v1::INT8: return kInt8;
    case v1::UINT8: return kUint8;
    default: KILN_CHECK(dtype == v1::FLOAT32); return kFloat32;
  }
}

void* Memory(const OneDnn& dnn, const void* desc, const float* data) {
  void* memory = nullptr;
  KILN_CHECK(dnn.memory_create(&memory, desc, dnn.engine, const_cast<float*>(data)) == 0);
  return memory;
}

// Memory that the library allocates.
void* OwnMemory(const OneDnn& dnn, const void* desc) {
  return Memory(dnn, desc, reinterpret_cast<const float*>(~uintptr_t{0}));
}

const void* Describe(const OneDnn& dnn, const Structure& operation) {
  void* description = nullptr;
  KILN_CHECK(dnn.primitive_desc_create(&description, &operation, nullptr, dnn.engine, nullptr) == 0);
  return description;
}

// A described operation on these arguments.
Call Execution(const OneDnn& dnn, const void* description, std::vector<ExecArgument> arguments) {
  void* primitive = nullptr;
  KILN_CHECK(dnn.primitive_create(&primitive, description) == 0);
  return {[&dnn, primitive, arguments] {
    dnn.primitive_execute(primitive, dnn.stream, static_cast<int>(arguments.size()), arguments.data());
    dnn.stream_wait(dnn.stream);
  }};
}

// The same values in another layout.
Call Reorder(const OneDnn& dnn, const void* from_desc, void* from, const void* to_desc, void* to) {
  void* description = nullptr;
  KILN_CHECK(dnn.reorder_primitive_desc_create(&description, from_desc, dnn.engine, to_desc, dnn.engine, nullptr) == 0);
  return Execution(dnn, description, {{kSource, from}, {kResult, to}});
}

Peer OneDnnPeer(std::function<Call(const OneDnn&, const Operands&)> bind) {
  return {"oneDNN", [bind = std::move(bind)](const Operands& of) -> Call {
            const OneDnn* dnn = FindOneDnn();
            if (dnn == nullptr) return {};
            dnn->set_num_threads(of.team.threads());
            return bind(*dnn, of);
          }};
}

}  // namespace

SingleSgemm OneDnnSingle() {
  const OneDnn* dnn = FindOneDnn();
  if (dnn == nullptr) return nullptr;
  return
      [dnn](bool transpose_b, int64_t m, int64_t n, int64_t k, float scale, const float* a, const float* b, float* c) {
        dnn->set_num_threads(1);  // it is each thread's own
        dnn->sgemm('N', transpose_b ? 'T' : 'N', m, n, k, scale, a, k, b, transpose_b ? k : n, 0, c, n);
      };
}

Peer OneDnnSgemm(int64_t m, int64_t n, int64_t k, bool transpose_b) {
  return OneDnnPeer([=](const OneDnn& dnn, const Operands& of) -> Call {
    return {[=, &dnn] {
      dnn.sgemm('N', transpose_b ? 'T' : 'N', m, n, k, 1, of.in[0], k, of.in[1], transpose_b ? k : n, 0, of.out, n);
    }};
  });
}

Peer OneDnnBatched(int64_t count, int64_t n) {
  return OneDnnPeer([=](const OneDnn& dnn, const Operands& of) -> Call {
    const Structure matrices = Plain(dnn, {count, n, n});
    Structure desc;
    KILN_CHECK(dnn.matmul_desc_init(&desc, &matrices, &matrices, nullptr, &matrices) == 0);
    return Execution(dnn, Describe(dnn, desc),
                     {{kSource, Memory(dnn, &matrices, of.in[0])},
                      {kWeights, Memory(dnn, &matrices, of.in[1])},
                      {kResult, Memory(dnn, &matrices, of.out)}});
  });
}

Peer OneDnnMatmul(int64_t m, int64_t n, int64_t k, v1::DType a, v1::DType b) {
  return OneDnnPeer([=](const OneDnn& dnn, const Operands& of) -> Call {
    const Structure source = Plain(dnn, {m, k}, DTypeOf(a)), weights = Plain(dnn, {k, n}, DTypeOf(b));
    const Structure result = Plain(dnn, {m, n});
    Structure desc;
    KILN_CHECK(dnn.matmul_desc_init(&desc, &source, &weights, nullptr, &result) == 0);
    return Execution(dnn, Describe(dnn, desc),
                     {{kSource, Memory(dnn, &source, of.in[0])},
                      {kWeights, Memory(dnn, &weights, of.in[1])},
                      {kResult, Memory(dnn, &result, of.out)}});
  });
}

Peer OneDnnConvolution(const ConvolutionSizes& sizes) {
  return OneDnnPeer([=](const OneDnn& dnn, const Operands& of) -> Call {
    const int64_t side = sizes.side(), padding = sizes.kernel / 2;
    const Dims dims[] = {{1, sizes.in, sizes.image, sizes.image},
                         {sizes.out, sizes.in, sizes.kernel, sizes.kernel},
                         {1, sizes.out, side, side}};
    const Dims strides = {sizes.stride, sizes.stride}, before = {padding, padding};
    // The image that is read ends where the last window does.
    const int64_t rest = (side - 1) * sizes.stride + sizes.kernel - sizes.image - padding;
    const Dims after = {rest, rest};
    Structure any[3], desc;
    for (int i = 0; i < 3; ++i) any[i] = Tagged(dnn, dims[i], kAnyTag);
    KILN_CHECK(dnn.convolution_forward_desc_init(&desc, kInference, kDirect, &any[0], &any[1], nullptr, &any[2],
                                                 strides.data(), before.data(), after.data()) == 0);
    const void* description = Describe(dnn, desc);
    const int queries[] = {kSourceMd, kWeightsMd, kResultMd}, names[] = {kSource, kWeights, kResult};
    std::vector<ExecArgument> arguments;
    for (int i = 0; i < 3; ++i) {
      const void* wanted = dnn.primitive_desc_query_md(description, queries[i], 0);
      arguments.push_back({names[i], OwnMemory(dnn, wanted)});
      const Structure plain = Plain(dnn, dims[i]);
      if (i < 2) Reorder(dnn, &plain, Memory(dnn, &plain, of.in[i]), wanted, arguments[i].memory).run();
    }
    Call call = Execution(dnn, description, arguments);
    const Structure plain = Plain(dnn, dims[2]);
    call.publish = Reorder(dnn, dnn.primitive_desc_query_md(description, kResultMd, 0), arguments[2].memory, &plain,
                           Memory(dnn, &plain, of.out))
                       .run;
    return call;
  });
}

Peer OneDnnElementwise(Function function, int64_t count) {
  return OneDnnPeer([=](const OneDnn& dnn, const Operands& of) -> Call {
    const Structure line = Plain(dnn, {count});
    Structure desc;
    KILN_CHECK(dnn.eltwise_forward_desc_init(&desc, kInference, static_cast<int>(function), &line, 0, 0) == 0);
    return Execution(dnn, Describe(dnn, desc),
                     {{kSource, Memory(dnn, &line, of.in[0])}, {kResult, Memory(dnn, &line, of.out)}});
  });
}

Peer OneDnnTranspose(int64_t n) {
  constexpr int kTransposedTag = 22;
  return OneDnnPeer([=](const OneDnn& dnn, const Operands& of) -> Call {
    const Structure from = Plain(dnn, {n, n}), to = Tagged(dnn, {n, n}, kTransposedTag);
    return Reorder(dnn, &from, Memory(dnn, &from, of.in[0]), &to, Memory(dnn, &to, of.out));
  });
}

Peer OneDnnSoftmax(int64_t rows, int64_t columns) {
  return OneDnnPeer([=](const OneDnn& dnn, const Operands& of) -> Call {
    const Structure table = Plain(dnn, {rows, columns});
    Structure desc;
    KILN_CHECK(dnn.softmax_forward_desc_init(&desc, kInference, &table, 1) == 0);
    return Execution(dnn, Describe(dnn, desc),
                     {{kSource, Memory(dnn, &table, of.in[0])}, {kResult, Memory(dnn, &table, of.out)}});
  });
}

Peer OneDnnLayerNorm(int64_t rows, int64_t columns) {
  return OneDnnPeer([=](const OneDnn& dnn, const Operands& of) -> Call {
    const Structure table = Plain(dnn, {rows, columns}), row = Plain(dnn, {columns});
    Structure desc;
    KILN_CHECK(dnn.layer_normalization_forward_desc_init(&desc, kInference, &table, nullptr, 1e-5f,
                                                         kUseScale | kUseShift) == 0);
    return Execution(dnn, Describe(dnn, desc),
                     {{kSource, Memory(dnn, &table, of.in[0])},
                      {kScale, Memory(dnn, &row, of.in[1])},
                      {kShift, Memory(dnn, &row, of.in[2])},
                      {kResult, Memory(dnn, &table, of.out)}});
  });
}

}  // namespace kiln::bench
