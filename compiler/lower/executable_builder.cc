#include "compiler/lower/executable_builder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "compiler/structure/kernel_call.h"

namespace kiln::compiler {
namespace {

// With something to give each of several callers: a program without results that vary is one for all.
bool IsRowWise(absl::Span<const Batching> batching, uint32_t slot) {
  return std::any_of(batching.begin(), batching.end(), [slot](const Batching& each) {
    return each.slot == slot && each.row_wise() &&
           std::any_of(each.results.begin(), each.results.end(),
                       [](const Batching::Part& part) { return part.varying; });
  });
}

uint64_t BytesOf(const UOp* uop) { return static_cast<uint64_t>(MaxElements(uop->shape()) * ItemSize(uop->dtype())); }

// Shape and bytes of a parameter or a result.
template <typename Tensor>
void SetShape(const UOp* uop, absl::Span<UOp* const> variables, Tensor* tensor) {
  for (size_t axis = 0; axis < uop->shape().size(); ++axis) {
    const Dim& size = uop->shape()[axis];
    tensor->add_shape(size.max());
    if (size.IsConst()) continue;
    auto* symbolic = tensor->add_symbolic();
    symbolic->set_axis(static_cast<uint32_t>(axis));
    *symbolic->mutable_size() = ToPostfix(size.expr(), variables);
  }
  tensor->set_bytes(BytesOf(uop));
}

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

// The number of that preparation of parameter `source`.
size_t Prepare(const KernelPreparation& wanted, const v1::Operand& source, v1::Executable& executable) {
  KILN_CHECK(source.space() == v1::Operand::PARAMETER);
  const int count = executable.preparations_size();
  for (int i = 0; i < count; ++i) {
    const v1::Preparation& there = executable.preparations(i);
    if (there.parameter() == source.index() && there.key() == wanted.key) return static_cast<size_t>(i);
  }
  v1::Preparation* made = executable.add_preparations();
  made->set_parameter(source.index());
  made->set_bytes(wanted.bytes);
  made->set_key(wanted.key);
  made->mutable_step()->set_kernel(wanted.kernel);
  *made->mutable_step()->add_operands() = source;
  v1::Operand* target = made->mutable_step()->add_operands();
  *target = OperandAt(v1::Operand::PREPARED, static_cast<size_t>(count), 0);
  target->set_written(true);
  return static_cast<size_t>(count);
}

}  // namespace

// Its nodes are few: IsSize (ir/polynomial.h).
v1::SizeExpr ToPostfix(const UOp* size, absl::Span<UOp* const> variables) {
  v1::SizeExpr expr;
  const auto add = [&expr](v1::SizeExpr::Op op, int64_t value) {
    v1::SizeExpr::Token* token = expr.add_token();
    token->set_op(op);
    token->set_value(value);
  };
  std::vector<std::pair<const UOp*, size_t>> stack = {{size, 0}};
  while (!stack.empty()) {
    auto& [uop, next] = stack.back();
    if (!uop->IsVariable() && next < uop->src().size()) {
      const UOp* source = uop->src(next++);
      stack.emplace_back(source, 0);
      continue;
    }
    switch (uop->op()) {
      case Op::CONST: add(v1::SizeExpr::CONST, uop->const_int()); break;
      case Op::PARAM:
        add(v1::SizeExpr::VARIABLE, std::find(variables.begin(), variables.end(), uop) - variables.begin());
        break;
      case Op::CAST: break;  // of what fits
      case Op::ADD: add(v1::SizeExpr::ADD, 0); break;
      case Op::MUL: add(v1::SizeExpr::MUL, 0); break;
      case Op::FLOORDIV: add(v1::SizeExpr::FLOORDIV, 0); break;
      case Op::FLOORMOD: add(v1::SizeExpr::FLOORMOD, 0); break;
      default: KILN_CHECK(uop->op() == Op::MAX); add(v1::SizeExpr::MAX, 0);
    }
    stack.pop_back();
  }
  return expr;
}

v1::Signature SignatureOf(const Function& function, absl::Span<const Batching> batching) {
  v1::Signature signature;
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const UOp* param = function.parameters[i];
    v1::Signature::Parameter* parameter = signature.add_parameters();
    parameter->set_slot(param->arg_as<BufferArg>().slot);
    parameter->set_dtype(ToWire(param->dtype()));
    SetShape(param, function.variables, parameter);
    parameter->set_written(function.written[i]);
    parameter->set_overwritten(!function.overwritten.empty() && function.overwritten[i]);
    parameter->set_name(param->arg_as<BufferArg>().name);
  }
  for (const Function::Result& made : function.results) {
    v1::Signature::Result* result = signature.add_results();
    result->set_dtype(ToWire(made.value->dtype()));
    SetShape(made.value, function.variables, result);
    if (made.aliases.has_value()) result->set_aliases(static_cast<uint32_t>(*made.aliases));
  }
  for (const UOp* uop : function.variables) {
    v1::Signature::Variable* variable = signature.add_variables();
    const BufferArg& arg = uop->arg_as<BufferArg>();
    variable->set_slot(arg.slot);
    variable->set_name(arg.name);
    variable->set_min_value(arg.min);
    variable->set_max_value(arg.max);
    const auto binding = function.bindings.find(uop);
    if (binding != function.bindings.end()) variable->set_default_value(binding->second);
    variable->set_row_wise(IsRowWise(batching, arg.slot));
  }
  for (const Function::Condition& made : function.conditions) {
    v1::Signature::Condition* condition = signature.add_conditions();
    *condition->mutable_size() = ToPostfix(made.size, function.variables);
    condition->set_text(made.text);
  }
  return signature;
}

void AddSteps(const Function& function, const UOp* linear, const MemoryPlan& plan,
              absl::Span<const CompiledCall> compiled, v1::Executable& executable) {
  absl::flat_hash_map<const UOp*, v1::Operand> places;
  for (size_t i = 0; i < function.parameters.size(); ++i)
    places[function.parameters[i]] = OperandAt(v1::Operand::PARAMETER, i, 0);
  for (size_t i = 0; i < function.variables.size(); ++i)
    places[function.variables[i]] = OperandAt(v1::Operand::VARIABLE, i, 0);
  for (size_t i = 0; i < function.results.size(); ++i) {
    if (function.results[i].buffer != nullptr)
      places[function.results[i].buffer] = OperandAt(v1::Operand::RESULT, i, 0);
  }
  for (const auto& [buffer, offset] : plan.offsets)
    places[buffer] = OperandAt(v1::Operand::ARENA, 0, static_cast<uint64_t>(offset));
  executable.set_arena_bytes(static_cast<uint64_t>(plan.arena_bytes));

  for (size_t i = 0; i < linear->src().size(); ++i) {
    v1::Step* step = executable.add_steps();
    step->set_kernel(compiled[i].kernel);
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
    for (const KernelPreparation& wanted : compiled[i].preparations) {
      const v1::Operand& source = places.at(linear->src(i)->src(1 + wanted.slot));
      *step->add_operands() = OperandAt(v1::Operand::PREPARED, Prepare(wanted, source, executable), 0);
    }
  }
}

}  // namespace kiln::compiler
