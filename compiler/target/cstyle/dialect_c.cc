// C11, one work item after the other. The text counts on integers that wrap, on
// pointers that may alias, and on sums that are not contracted:
//   cc -fwrapv -fno-strict-aliasing -ffp-contract=off
#include "compiler/target/cstyle/dialect.h"

namespace kiln::compiler {
namespace {

constexpr TypeRow kTypes[] = {
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

// Of glibc and musl: within 2 ulp.
constexpr NativeOp kNative[] = {
    {Op::EXP2, DType::kFloat32}, {Op::EXP2, DType::kFloat64}, {Op::LOG2, DType::kFloat32}, {Op::LOG2, DType::kFloat64},
    {Op::SIN, DType::kFloat32},  {Op::SIN, DType::kFloat64},  {Op::POW, DType::kFloat32},  {Op::POW, DType::kFloat64},
};

Dialect Make() {
  Dialect d;
  d.name = "c";
  d.header =
      "// cc -fwrapv -fno-strict-aliasing -ffp-contract=off\n"
      "#include <math.h>\n"
      "#include <stdbool.h>\n";
  d.kernel_prefix = "void ";
  d.function_prefix = "static inline ";
  d.variable = "const $T $n";
  d.types = kTypes;
  d.ints_wrap = true;
  d.functions = kFunctions;
  d.native = kNative;
  d.bitcast = "(*(($T*)&$x))";
  return d;
}

}  // namespace

const Dialect kDialectC = Make();

}  // namespace kiln::compiler
