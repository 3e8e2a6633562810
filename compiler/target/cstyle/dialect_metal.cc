// The Metal shading language. It has no double. Build with -fno-fast-math -fwrapv.
#include "compiler/target/cstyle/dialect.h"

namespace kiln::compiler {
namespace {

constexpr absl::string_view kGroupId[] = {"gid.x", "gid.y", "gid.z"};
constexpr absl::string_view kItemId[] = {"lid.x", "lid.y", "lid.z"};

constexpr TypeRow kTypes[] = {
    {DType::kBool, "bool"},    {DType::kInt8, "char"},    {DType::kInt16, "short"},     {DType::kInt32, "int"},
    {DType::kInt64, "long"},   {DType::kUint8, "uchar"},  {DType::kUint16, "ushort"},   {DType::kUint32, "uint"},
    {DType::kUint64, "ulong"}, {DType::kFloat16, "half"}, {DType::kBfloat16, "ushort"}, {DType::kFloat32, "float"},
};

// Its exp2, log2, sin and pow are allowed more error than the IR is: they are
// computed from what is exact.
constexpr FunctionRow kFunctions[] = {
    {Op::SQRT, DType::kFloat32, "sqrt($0)"},
    {Op::TRUNC, DType::kFloat32, "trunc($0)"},
};

constexpr AtomicRow kAtomics[] = {
    {DType::kInt32, "atomic_fetch_add_explicit((volatile $s atomic_int*)($0),$1,memory_order_relaxed);"},
    {DType::kUint32, "atomic_fetch_add_explicit((volatile $s atomic_uint*)($0),$1,memory_order_relaxed);"},
    {DType::kFloat32, "atomic_fetch_add_explicit((volatile $s atomic_float*)($0),$1,memory_order_relaxed);"},
};

Dialect Make() {
  Dialect d;
  d.name = "metal";
  d.ints_wrap = true;
  d.header = "#include <metal_stdlib>\nusing namespace metal;\n";
  d.kernel_prefix = "kernel void ";
  d.function_prefix = "static inline ";
  d.global = "device ";
  d.local = "threadgroup ";
  d.variable = "constant $T& $n";
  d.last_params = "uint3 gid [[threadgroup_position_in_grid]], uint3 lid [[thread_position_in_threadgroup]]";
  d.group_id = kGroupId;
  d.item_id = kItemId;
  d.global_id = kGroupId;  // a grid of groups of one
  d.barrier = "threadgroup_barrier(mem_flags::mem_threadgroup|mem_flags::mem_device);";
  d.types = kTypes;
  d.functions = kFunctions;
  d.atomics = kAtomics;
  d.bitcast = "as_type<$T>($x)";
  d.int_max = "max($0,$1)";
  d.vector_type = "$T$n";
  d.vector_literal = "$T$n($v)";
  return d;
}

}  // namespace

const Dialect kDialectMetal = Make();

}  // namespace kiln::compiler
