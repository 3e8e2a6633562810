#include "compiler/batch/row_wise.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "compiler/ir/devices.h"

namespace kiln::compiler {
namespace {

class Proof {
 public:
  Proof(Graph& graph, const Function& function, UOp* variable, size_t& left, std::vector<RowEquation>* used)
      : graph_(graph), function_(function), variable_(variable), left_(left), used_(used), dependents_(variable) {}

  RowWise Run(UOp* calls) {
    RowWise proof;
    proof.obstacle = Effects();
    if (!proof.obstacle.has_value()) proof.obstacle = Parts(proof);
    if (!proof.obstacle.has_value()) proof.obstacle = Kernels(calls);
    if (proof.obstacle.has_value()) proof.parameters.clear(), proof.results.clear();
    return proof;
  }

 private:
  using Obstacle = std::optional<RowObstacle>;

  static Obstacle Deny(Forbids why, const UOp* node, absl::string_view where) {
    return RowObstacle{why, node, absl::StrCat(where, where.empty() ? "" : ": ", Words(why))};
  }

  // 1, but for what the kernels' order says.
  Obstacle Effects() {
    if (!function_.bodies.empty()) return Deny(Forbids::kByHand, function_.bodies.begin()->second, "");
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      if (function_.written[i]) return Deny(Forbids::kUpdates, function_.parameters[i], Parameter(i));
    }
    for (size_t i = 0; i < function_.results.size(); ++i) {
      const Function::Result& result = function_.results[i];
      if (result.aliases.has_value() || result.buffer == nullptr)
        return Deny(Forbids::kUpdates, result.value, Result(i));
    }
    for (const Function::Condition& condition : function_.conditions) {
      if (dependents_.Contain(condition.size)) return Deny(Forbids::kCondition, condition.size, condition.text);
    }
    return std::nullopt;
  }

  Obstacle Parts(RowWise& proof) {
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      if (!AddPart(function_.parameters[i], proof.parameters))
        return Deny(Fault(function_.parameters[i]), function_.parameters[i], Parameter(i));
    }
    for (size_t i = 0; i < function_.results.size(); ++i) {
      if (!AddPart(function_.results[i].buffer, proof.results))
        return Deny(Fault(function_.results[i].buffer), function_.results[i].buffer, Result(i));
    }
    return std::nullopt;
  }

  static bool IsOnOneDevice(const UOp* storage) { return DeviceCount(storage->device()) == 1 && storage->axis() < 0; }
  static Forbids Fault(const UOp* storage) { return IsOnOneDevice(storage) ? Forbids::kShape : Forbids::kDevices; }

  bool AddPart(const UOp* storage, std::vector<RowPart>& parts) {
    if (!IsOnOneDevice(storage)) return false;
    RowPart part;
    const Shape& shape = storage->shape();
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!dependents_.Contain(shape[axis])) continue;
      const std::optional<Polynomial> each = PerRow(graph_, PolynomialOf(graph_, shape[axis]), variable_);
      if (axis > 0 || !each.has_value()) return false;
      part = {true, DimOf(graph_, *each)};
    }
    parts.push_back(part);
    return true;
  }

  // 1 to 4, kernel after kernel.
  Obstacle Kernels(UOp* calls) {
    absl::flat_hash_set<const UOp*> readable(function_.parameters.begin(), function_.parameters.end());
    for (size_t i = 0; i < calls->src().size(); ++i) {
      const UOp* call = calls->src(i);
      const auto where = [&](const UOp* node) {
        const auto* kernel = std::get_if<KernelArg>(&call->src(0)->arg());
        const bool whole = node == call || node == call->src(0);
        return absl::StrCat("kernel ", i, kernel == nullptr ? "" : absl::StrCat(" (", kernel->name, ")"),
                            whole ? "" : absl::StrCat(", ", Name(node->op())));
      };
      if (call->op() != Op::CALL || call->src().size() < 2) return Deny(Forbids::kUnknown, call, where(call));
      if (const std::optional<Forbids> fault = FaultOfArguments(call, readable); fault.has_value())
        return Deny(*fault, call, where(call));
      if (const std::optional<RowFault> fault = FaultOf(call); fault.has_value())
        return Deny(fault->why, fault->node, where(fault->node));
      readable.insert(call->src(1));
    }
    for (size_t i = 0; i < function_.results.size(); ++i) {
      const UOp* buffer = function_.results[i].buffer;
      if (!readable.contains(buffer) && MaxElements(buffer->shape()) > 0)
        return Deny(Forbids::kOrder, buffer, Result(i));
    }
    return std::nullopt;
  }

  // 2 to 4, of one kernel.
  std::optional<RowFault> FaultOf(const UOp* call) {
    UOp* kernel = call->src(0);
    const auto arguments = call->src().subspan(1);
    const auto at = std::find(arguments.begin(), arguments.end(), variable_);
    UOp* variable = nullptr;
    if (at != arguments.end()) {
      variable = VariableOf(kernel, static_cast<uint32_t>(at - arguments.begin()));
      if (variable == nullptr) return RowFault{Forbids::kUnknown, call};
    } else if (std::any_of(arguments.begin(), arguments.end(), [this](UOp* argument) { return HasRows(argument); })) {
      return RowFault{Forbids::kUnknown, call};  // how could it have a loop over them?
    }
    const auto known = faults_.find({kernel, variable});
    if (known != faults_.end() && used_ == nullptr) return known->second;
    const size_t nodes = Toposort(kernel).size();
    if (nodes > left_) return RowFault{Forbids::kTooLarge, call};
    left_ -= nodes;
    return faults_[{kernel, variable}] = FaultOfKernel(graph_, kernel, variable, used_);
  }

  bool HasRows(UOp* argument) {
    return std::any_of(argument->shape().begin(), argument->shape().end(),
                       [this](const Dim& size) { return dependents_.Contain(size); });
  }

  // Its first argument is written, and nothing else; what it reads holds what it will hold.
  std::optional<Forbids> FaultOfArguments(const UOp* call, const absl::flat_hash_set<const UOp*>& readable) const {
    const auto arguments = call->src().subspan(1);
    if (arguments[0]->op() != Op::BUFFER || readable.contains(arguments[0])) return Forbids::kUpdates;
    if (!IsOnOneDevice(arguments[0])) return Forbids::kDevices;
    bool taken = false;
    for (const UOp* argument : arguments.subspan(1)) {
      if (argument->IsVariable()) {
        const auto& variables = function_.variables;
        if (std::find(variables.begin(), variables.end(), argument) == variables.end()) return Forbids::kUnknown;
        if (argument == variable_ && std::exchange(taken, true)) return Forbids::kUnknown;
        continue;
      }
      if (!IsOnOneDevice(argument)) return Forbids::kDevices;
      if (argument->op() != Op::BINARY && !readable.contains(argument)) return Forbids::kUpdates;
    }
    return std::nullopt;
  }

  // The kernel's own name for argument `slot`.
  static UOp* VariableOf(UOp* kernel, uint32_t slot) {
    UOp* found = nullptr;
    for (UOp* uop : Toposort(kernel)) {
      if (!uop->IsVariable() || uop->arg_as<BufferArg>().slot != slot) continue;
      if (std::exchange(found, uop) != nullptr) return nullptr;
    }
    return found;
  }

  std::string Parameter(size_t i) const {
    const UOp* param = function_.parameters[i];
    const auto& arg = param->arg_as<BufferArg>();
    return absl::StrCat("parameter ", arg.slot, arg.name.empty() ? "" : absl::StrCat(" \"", arg.name, "\""), " ",
                        ToString(param->shape()));
  }
  std::string Result(size_t i) const {
    return absl::StrCat("result ", i, " ", ToString(function_.results[i].value->shape()));
  }

  Graph& graph_;
  const Function& function_;
  UOp* variable_;
  size_t& left_;
  std::vector<RowEquation>* used_;
  Dependents dependents_;  // of the function; kernels have variables of their own
  // By kernel, and its own name for the variable.
  absl::flat_hash_map<std::pair<const UOp*, const UOp*>, std::optional<RowFault>> faults_;
};

}  // namespace

RowWise ProveRowWise(Graph& graph, const Function& function, UOp* calls, UOp* variable, size_t& left,
                     std::vector<RowEquation>* used) {
  KILN_CHECK(calls->op() == Op::LINEAR && variable->IsVariable());
  return Proof(graph, function, variable, left, used).Run(calls);
}

}  // namespace kiln::compiler
