// CUDA and HIP: one language, two spellings of half a dozen things. Build
// without fast math: nvcc -fmad=false, hipcc -ffp-contract=off -fwrapv.
#include "compiler/target/cstyle/dialect.h"

namespace kiln::compiler {
namespace {

constexpr absl::string_view kGroupId[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z"};
constexpr absl::string_view kItemId[] = {"threadIdx.x", "threadIdx.y", "threadIdx.z"};
constexpr absl::string_view kGlobalId[] = {"(blockIdx.x*blockDim.x+threadIdx.x)", "(blockIdx.y*blockDim.y+threadIdx.y)",
                                           "(blockIdx.z*blockDim.z+threadIdx.z)"};

constexpr TypeRow kCudaTypes[] = {
    {DType::kBool, "bool"},
    {DType::kInt8, "signed char"},
    {DType::kInt16, "short"},
    {DType::kInt32, "int"},
    {DType::kInt64, "long long"},
    {DType::kUint8, "unsigned char"},
    {DType::kUint16, "unsigned short"},
    {DType::kUint32, "unsigned int"},
    {DType::kUint64, "unsigned long long"},
    {DType::kFloat16, "half", "#include <cuda_fp16.h>\n"},
    {DType::kBfloat16, "unsigned short"},
    {DType::kFloat32, "float"},
    {DType::kFloat64, "double"},
};

constexpr TypeRow kHipTypes[] = {
    {DType::kBool, "bool"},
    {DType::kInt8, "signed char"},
    {DType::kInt16, "short"},
    {DType::kInt32, "int"},
    {DType::kInt64, "long long"},
    {DType::kUint8, "unsigned char"},
    {DType::kUint16, "unsigned short"},
    {DType::kUint32, "unsigned int"},
    {DType::kUint64, "unsigned long long"},
    {DType::kFloat16, "_Float16"},
    {DType::kBfloat16, "unsigned short"},
    {DType::kFloat32, "float"},
    {DType::kFloat64, "double"},
};

constexpr FunctionRow kFunctions[] = {
    {Op::EXP2, DType::kFloat32, "exp2f($0)"},   {Op::EXP2, DType::kFloat64, "exp2($0)"},
    {Op::LOG2, DType::kFloat32, "log2f($0)"},   {Op::LOG2, DType::kFloat64, "log2($0)"},
    {Op::SIN, DType::kFloat32, "sinf($0)"},     {Op::SIN, DType::kFloat64, "sin($0)"},
    {Op::SQRT, DType::kFloat32, "sqrtf($0)"},   {Op::SQRT, DType::kFloat64, "sqrt($0)"},
    {Op::TRUNC, DType::kFloat32, "truncf($0)"}, {Op::TRUNC, DType::kFloat64, "trunc($0)"},
    {Op::POW, DType::kFloat32, "powf($0,$1)"},  {Op::POW, DType::kFloat64, "pow($0,$1)"},
};

// The programming guides promise at most 2 ulp for each, and 4 for powf.
constexpr NativeOp kNative[] = {
    {Op::EXP2, DType::kFloat32}, {Op::EXP2, DType::kFloat64}, {Op::LOG2, DType::kFloat32}, {Op::LOG2, DType::kFloat64},
    {Op::SIN, DType::kFloat32},  {Op::SIN, DType::kFloat64},  {Op::POW, DType::kFloat32},  {Op::POW, DType::kFloat64},
};

constexpr AtomicRow kAtomics[] = {
    {DType::kInt32, "atomicAdd($0,$1);"},
    {DType::kUint32, "atomicAdd($0,$1);"},
    {DType::kInt64, "atomicAdd((unsigned long long*)($0),(unsigned long long)($1));"},
    {DType::kUint64, "atomicAdd($0,$1);"},
    {DType::kFloat32, "atomicAdd($0,$1);"},
    {DType::kFloat64, "atomicAdd($0,$1);"},
};

Dialect Make(absl::string_view name) {
  Dialect d;
  d.name = name;
  d.kernel_prefix = "extern \"C\" __global__ void ";
  d.function_prefix = "static __device__ inline ";
  d.local = "__shared__ ";
  d.variable = "const $T $n";
  d.group_id = kGroupId;
  d.item_id = kItemId;
  d.global_id = kGlobalId;
  d.barrier = "__syncthreads();";
  d.functions = kFunctions;
  d.native = kNative;
  d.atomics = kAtomics;
  d.bitcast = "(*(($T*)&$x))";
  d.int_max = "max($0,$1)";
  d.vector_type = "$T$n";
  d.vector_literal = "make_$T$n($v)";
  return d;
}

Dialect MakeCuda() {
  Dialect d = Make("cuda");
  d.header =
      "#ifndef INFINITY\n"
      "#define INFINITY (__int_as_float(0x7f800000))\n"
      "#define NAN (__int_as_float(0x7fc00000))\n"
      "#endif\n";
  d.types = kCudaTypes;
  d.warp_matrix = true;
  return d;
}

Dialect MakeHip() {
  Dialect d = Make("hip");
  d.header = "#include <hip/hip_runtime.h>\n";
  d.types = kHipTypes;
  d.ints_wrap = true;
  return d;
}

}  // namespace

const Dialect kDialectCuda = MakeCuda();
const Dialect kDialectHip = MakeHip();

}  // namespace kiln::compiler
