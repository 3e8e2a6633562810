#include "tests/support/arguments.h"

#include "base/error.h"
#include "compiler/import/wire.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "tests/support/random.h"

namespace kiln::testing {

using compiler::DType;
using compiler::HostTensor;
using compiler::UOp;

namespace {

uint64_t RandomElement(DType dtype, Random& random) {
  const int64_t small = random.In(-8, 8);
  if (compiler::IsFloat(dtype)) return compiler::FloatBits(dtype, static_cast<double>(small));
  return compiler::WrapInt(dtype, random.OneIn(8) ? random.Bits() : static_cast<uint64_t>(small));
}

}  // namespace

absl::StatusOr<compiler::HostTensors> RandomArguments(const v1::Graph& graph, uint64_t seed,
                                                      const compiler::VariableValues& variables) {
  compiler::Graph nodes;
  KILN_ASSIGN_OR_RETURN(UOp * root, compiler::FromWire(graph, compiler::Limits(), nodes));
  KILN_ASSIGN_OR_RETURN(root, compiler::BindVariables(nodes, root, variables));
  Random random(seed);
  compiler::HostTensors arguments;
  for (UOp* uop : compiler::Toposort(root)) {
    if (uop->op() != compiler::Op::PARAM && uop->op() != compiler::Op::BUFFER) continue;
    HostTensor tensor{uop->dtype(), uop->shape(), {}};
    const int item = compiler::ItemSize(uop->dtype());
    const int64_t count = compiler::NumElements(uop->shape());
    tensor.bytes.resize(static_cast<size_t>(count * item));
    for (int64_t i = 0; i < count; ++i) {
      compiler::StoreElement(uop->dtype(), RandomElement(uop->dtype(), random), tensor.bytes.data() + i * item);
    }
    arguments.emplace(uop->arg_as<compiler::BufferArg>().slot, std::move(tensor));
  }
  return arguments;
}

}  // namespace kiln::testing
