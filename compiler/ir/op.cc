#include "compiler/ir/op.h"

#include <array>

namespace kiln::compiler {
namespace {

// The first word of a row and its stages agree.
#define UOP(...)
#define TENSOR_OP(name, least, most, traits, arg, dtype, stages, meaning) \
  static_assert(((stages) & (kInKernels | kInPrograms)) == 0, #name " is no TENSOR_OP");
#define PROGRAM_OP(name, least, most, traits, arg, dtype, stages, meaning) \
  static_assert(((stages) & ~kInPrograms) == 0, #name " is no PROGRAM_OP");
#include "compiler/ir/ops.def"
#undef UOP

std::array<OpInfo, 256> MakeTable() {
  std::array<OpInfo, 256> table = {};
#define UOP(name, least, most, traits, arg, dtype, stages, meaning) \
  table[v1::name] = {#name, least, most, traits, ArgForm::arg, DTypeRule::dtype, stages | kInGraph, meaning};
#include "compiler/ir/ops.def"
#undef UOP
  return table;
}

const std::array<OpInfo, 256>& Table() {
  static const std::array<OpInfo, 256> table = MakeTable();
  return table;
}

}  // namespace

const OpInfo& Info(Op op) { return Table()[static_cast<uint8_t>(op)]; }

bool IsCoreOp(v1::Op op) { return op >= 0 && op < 256 && !Table()[op].name.empty(); }

}  // namespace kiln::compiler
