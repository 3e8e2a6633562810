#include "compiler/executable_builder.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "compiler/schedule/kernel_entry.h"

namespace kiln::compiler {
namespace {

uint64_t BytesOf(const UOp* uop) { return static_cast<uint64_t>(NumElements(uop->shape()) * ItemSize(uop->dtype())); }

v1::Operand OperandAt(v1::Operand::Space space, size_t index, uint64_t offset) {
  v1::Operand operand;
  operand.set_space(space);
  operand.set_index(static_cast<uint32_t>(index));
  operand.set_offset(offset);
  return operand;
}

// Appends `bytes`, aligned, and returns where they begin.
uint64_t AppendConstants(const std::string& bytes, std::string& constants) {
  constants.resize((constants.size() + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment);
  const uint64_t offset = constants.size();
  constants += bytes;
  return offset;
}

}  // namespace

v1::Signature SignatureOf(const Function& function) {
  v1::Signature signature;
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const UOp* param = function.parameters[i];
    v1::Signature::Parameter* parameter = signature.add_parameters();
    parameter->set_slot(param->arg_as<BufferArg>().slot);
    parameter->set_dtype(ToWire(param->dtype()));
    parameter->mutable_shape()->Add(param->shape().begin(), param->shape().end());
    parameter->set_bytes(BytesOf(param));
    parameter->set_written(function.written[i]);
    parameter->set_name(param->arg_as<BufferArg>().name);
  }
  for (const Function::Result& made : function.results) {
    v1::Signature::Result* result = signature.add_results();
    result->set_dtype(ToWire(made.value->dtype()));
    result->mutable_shape()->Add(made.value->shape().begin(), made.value->shape().end());
    result->set_bytes(BytesOf(made.value));
    if (made.aliases.has_value()) result->set_aliases(static_cast<uint32_t>(*made.aliases));
  }
  return signature;
}

void AddSteps(const Function& function, const UOp* linear, const MemoryPlan& plan, absl::Span<const uint32_t> kernel_of,
              v1::Executable& executable) {
  absl::flat_hash_map<const UOp*, v1::Operand> places;
  for (size_t i = 0; i < function.parameters.size(); ++i)
    places[function.parameters[i]] = OperandAt(v1::Operand::PARAMETER, i, 0);
  for (size_t i = 0; i < function.results.size(); ++i) {
    if (function.results[i].buffer != nullptr)
      places[function.results[i].buffer] = OperandAt(v1::Operand::RESULT, i, 0);
  }
  for (const auto& [buffer, offset] : plan.offsets)
    places[buffer] = OperandAt(v1::Operand::ARENA, 0, static_cast<uint64_t>(offset));
  executable.set_arena_bytes(static_cast<uint64_t>(plan.arena_bytes));

  for (size_t i = 0; i < linear->src().size(); ++i) {
    v1::Step* step = executable.add_steps();
    step->set_kernel(kernel_of[i]);
    const absl::flat_hash_set<uint32_t> written = SlotsWritten(linear->src(i)->src(0));
    uint32_t slot = 0;
    for (const UOp* buffer : linear->src(i)->src().subspan(1)) {
      if (buffer->op() == Op::BINARY && !places.contains(buffer)) {
        places[buffer] = OperandAt(v1::Operand::CONSTANTS, 0,
                                   AppendConstants(buffer->arg_as<TextArg>().text, *executable.mutable_constants()));
      }
      KILN_CHECK(places.contains(buffer));
      v1::Operand* operand = step->add_operands();
      *operand = places[buffer];
      operand->set_written(written.contains(slot++));
    }
  }
}

}  // namespace kiln::compiler
