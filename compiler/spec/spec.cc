#include "compiler/spec/spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/devices.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

const char* NoFault(const UOp*) { return nullptr; }

const char* TensorFault(const UOp* uop) {
  if (DeviceCount(uop->device()) > 1)
    return "a value on a tuple of devices: programs are compiled for one device, and run on several by the interpreter "
           "alone";
  // Shapes are weak, and constants until they meet something strong.
  if (IsWeak(uop->dtype()) && uop->op() != Op::CONST && uop->op() != Op::STACK)
    return "a weak value that nothing settles";
  if (uop->op() == Op::REDUCE && uop->src().size() > 1)
    return "REDUCE over RANGEs belongs in a kernel program, which is not supported yet";
  if (uop->addrspace() == AddrSpace::kLocal || uop->addrspace() == AddrSpace::kReg)
    return "LOCAL and REG storage belong in a kernel program";
  if (uop->op() == Op::SHRINK && MayLeaveItsSource(uop))
    return "a SHRINK at a computed place belongs in a kernel program";
  return nullptr;
}

bool IsAccess(const UOp* uop) { return uop->op() == Op::LOAD || uop->op() == Op::STORE; }

// Of a thread's own register, which outlives the iterations of a loop (opt/cpu/scan.h).
bool IsRegister(const UOp* place) {
  while (place->op() == Op::AFTER) place = place->src(0);
  return place->op() == Op::BUFFER && place->addrspace() == AddrSpace::kReg;
}

const char* KernelFault(const UOp* uop) {
  if (IsAccess(uop) && uop->src(0)->op() != Op::INDEX && !IsRegister(uop->src(0))) return "an access without an INDEX";
  if (uop->op() == Op::REDUCE && uop->src().size() < 2) return "a REDUCE without a loop";
  if (uop->op() == Op::CONST && uop->IsInvalid()) return "an Invalid that was not lowered";
  if (IsElementwise(uop->op()) && !uop->shape().empty()) return "a shape other than ()";
  return nullptr;
}

const char* ExpandedFault(const UOp* uop) {
  if (uop->op() != Op::RANGE) return nullptr;
  const AxisType type = uop->arg_as<RangeArg>().type;
  return type == AxisType::kUpcast || type == AxisType::kUnroll ? "a loop that should be lanes" : nullptr;
}

// A REDUCE over SPECIALs is made by all items of a group together: no loop around it may end earlier for some of them.
bool DependsOnItem(UOp* bound) {
  if (bound->IsConst()) return false;
  const std::vector<UOp*> order = Toposort(bound);
  return std::any_of(order.begin(), order.end(), [](const UOp* uop) { return uop->op() == Op::SPECIAL; });
}

const char* LinearFault(const UOp* uop) {
  if (uop->op() == Op::REDUCE) {
    for (const UOp* over : uop->src().subspan(1)) {
      if (over->op() != Op::SPECIAL) return "a REDUCE over a loop";
    }
    if (uop->src().size() > 1 && !uop->arg_as<ReduceArg>().axes.empty()) return "a REDUCE over both lanes and items";
  }
  if (uop->op() == Op::RANGE && DependsOnItem(uop->src(0))) return "a loop that is longer for some work items";
  return ExpandedFault(uop);
}

const char* NamedFault(const UOp* uop) {
  if (uop->shape().size() > 1 && uop->op() != Op::PARAM && uop->op() != Op::BUFFER)
    return "a value of several dimensions";
  if (IsAccess(uop) && (uop->src(0)->op() != Op::INDEX || !Is(uop->src(0)->src(0)->op(), kSource)))
    return "an access that is no INDEX of storage";
  if (uop->IsInvalid()) return "an Invalid that was not lowered";
  return nullptr;
}

}  // namespace

const Spec kCoreSpec = {"graph", kInGraph, NoFault};
const Spec kTensorSpec = {"tensor graph", kInTensor, TensorFault};
const Spec kProgramSpec = {"program", kInProgram, NoFault};
const Spec kCallSpec = {"call list", kInCalls, NoFault};
const Spec kKernelSpec = {"kernel", kInKernel, KernelFault};
const Spec kScheduledSpec = {"scheduled kernel", kInScheduled, KernelFault};
const Spec kSharedOutSpec = {"kernel of work items", kInSharedOut, KernelFault};
const Spec kExpandedSpec = {"expanded kernel", kInExpanded, ExpandedFault};
const Spec kAccumulatingSpec = {"accumulating kernel", kInAccumulating, LinearFault};
const Spec kLinearSpec = {"linear kernel", kInLinear, LinearFault};
const Spec kNamedSpec = {"program of named values", kInNamed, NamedFault};
const Spec kGroupedSpec = {"program of loops", kInGrouped, NamedFault};

absl::Status Verify(const Spec& spec, const Graph& graph, UOp* root) {
  const bool from_client = &spec == &kTensorSpec;
  for (UOp* uop : Toposort(root)) {
    const char* fault = spec.Allows(uop->op()) ? spec.fault(uop)
                        : from_client          ? "this op is not supported in a tensor graph yet"
                                               : "an op that this stage has no more";
    if (fault == nullptr) continue;
    v1::ErrorDetail detail;
    detail.set_code(from_client ? v1::UNSUPPORTED_OP : v1::INTERNAL_FAULT);
    detail.set_op(std::string(Name(uop->op())));
    return graph.Locate(MakeError(std::move(detail), absl::StrCat(Name(uop->op()), " in a ", spec.name, ": ", fault)),
                        uop);
  }
  return absl::OkStatus();
}

}  // namespace kiln::compiler
