// OpenCL C 1.2 and later. Build with -cl-fp32-correctly-rounded-divide-sqrt, and
// without -cl-fast-relaxed-math.
#include "compiler/target/cstyle/dialect.h"

namespace kiln::compiler {
namespace {

constexpr absl::string_view kGroupId[] = {"get_group_id(0)", "get_group_id(1)", "get_group_id(2)"};
constexpr absl::string_view kItemId[] = {"get_local_id(0)", "get_local_id(1)", "get_local_id(2)"};
constexpr absl::string_view kGlobalId[] = {"get_global_id(0)", "get_global_id(1)", "get_global_id(2)"};

constexpr TypeRow kTypes[] = {
    {DType::kBool, "bool"},
    {DType::kInt8, "char"},
    {DType::kInt16, "short"},
    {DType::kInt32, "int"},
    {DType::kInt64, "long"},
    {DType::kUint8, "uchar"},
    {DType::kUint16, "ushort"},
    {DType::kUint32, "uint"},
    {DType::kUint64, "ulong"},
    {DType::kFloat16, "half", "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"},
    {DType::kBfloat16, "ushort"},
    {DType::kFloat32, "float"},
    {DType::kFloat64, "double", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"},
};

// The standard allows 3 ulp for exp2 and log2, 4 for sin and 16 for pow: enough in
// double, too many in float.
constexpr FunctionRow kFunctions[] = {
    {Op::EXP2, DType::kFloat64, "exp2($0)"},   {Op::LOG2, DType::kFloat64, "log2($0)"},
    {Op::SIN, DType::kFloat64, "sin($0)"},     {Op::POW, DType::kFloat64, "pow($0,$1)"},
    {Op::SQRT, DType::kFloat32, "sqrt($0)"},   {Op::SQRT, DType::kFloat64, "sqrt($0)"},
    {Op::TRUNC, DType::kFloat32, "trunc($0)"}, {Op::TRUNC, DType::kFloat64, "trunc($0)"},
};

constexpr NativeOp kNative[] = {
    {Op::EXP2, DType::kFloat64},
    {Op::LOG2, DType::kFloat64},
    {Op::SIN, DType::kFloat64},
    {Op::POW, DType::kFloat64},
};

constexpr AtomicRow kAtomics[] = {
    {DType::kInt32, "atomic_add($0,$1);"},
    {DType::kUint32, "atomic_add($0,$1);"},
};

Dialect Make() {
  Dialect d;
  d.name = "opencl";
  d.kernel_prefix = "__kernel void ";
  d.function_prefix = "static inline ";
  d.global = "__global ";
  d.local = "__local ";
  d.variable = "const $T $n";
  d.group_id = kGroupId;
  d.item_id = kItemId;
  d.global_id = kGlobalId;
  d.barrier = "barrier(CLK_LOCAL_MEM_FENCE|CLK_GLOBAL_MEM_FENCE);";
  d.types = kTypes;
  d.functions = kFunctions;
  d.native = kNative;
  d.atomics = kAtomics;
  d.bitcast = "as_$T($x)";
  d.int_max = "max($0,$1)";
  d.vector_type = "$T$n";
  d.vector_literal = "($T$n)($v)";
  return d;
}

}  // namespace

const Dialect kDialectOpenCl = Make();

}  // namespace kiln::compiler
