#include "compiler/spec/spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/devices.h"
#include "compiler/ir/program_scopes.h"

namespace kiln::compiler {
namespace {

constexpr Op kCoreOps[] = {
#define UOP(name, least, most, traits, meaning) Op::name,
#include "compiler/ir/ops.def"
#undef UOP
};
constexpr Op kTensorOps[] = {Op::PARAM,
                             Op::BUFFER,
                             Op::CONST,
                             Op::BINARY,
                             Op::PERMUTE,
                             Op::FLIP,
                             Op::RESHAPE,
                             Op::EXPAND,
                             Op::PAD,
                             Op::SHRINK,
                             Op::INDEX,
                             Op::STACK,
                             Op::BITCAST,
                             Op::REDUCE,
                             Op::TUPLE,
                             Op::GETTUPLE,
                             Op::LOAD,
                             Op::STORE,
                             Op::AFTER,
                             Op::GROUP,
                             Op::SINK,
                             Op::DETACH,
                             Op::CONTIGUOUS_BACKWARD,
                             Op::CALL};
constexpr Op kCallOps[] = {Op::LINEAR,  Op::CALL,   Op::SINK, Op::PARAM, Op::BUFFER, Op::CONST, Op::BINARY, Op::STACK,
                           Op::BITCAST, Op::REDUCE, Op::LOAD, Op::STORE, Op::INDEX,  Op::RANGE, Op::END,    Op::AFTER};
constexpr Op kKernelOps[] = {Op::SINK, Op::PARAM, Op::CONST, Op::STACK, Op::BITCAST, Op::REDUCE,
                             Op::LOAD, Op::STORE, Op::INDEX, Op::RANGE, Op::END};
constexpr Op kScheduledOps[] = {Op::SINK, Op::PARAM, Op::BUFFER, Op::CONST, Op::STACK, Op::BITCAST, Op::REDUCE,
                                Op::LOAD, Op::STORE, Op::INDEX,  Op::RANGE, Op::END,   Op::AFTER,   Op::WMMA};
constexpr Op kSharedOutOps[] = {Op::SINK,    Op::PARAM,  Op::BUFFER, Op::CONST,   Op::STACK,
                                Op::BITCAST, Op::REDUCE, Op::LOAD,   Op::STORE,   Op::INDEX,
                                Op::RANGE,   Op::END,    Op::AFTER,  Op::SPECIAL, Op::WMMA};
constexpr Op kExpandedOps[] = {Op::SINK,   Op::PARAM, Op::BUFFER,  Op::CONST, Op::STACK,  Op::BITCAST, Op::REDUCE,
                               Op::LOAD,   Op::STORE, Op::INDEX,   Op::RANGE, Op::END,    Op::PERMUTE, Op::RESHAPE,
                               Op::EXPAND, Op::AFTER, Op::SPECIAL, Op::PAD,   Op::SHRINK, Op::WMMA};
constexpr Op kAccumulatingOps[] = {Op::SINK,    Op::PARAM,   Op::BUFFER, Op::CONST,   Op::STACK,
                                   Op::BITCAST, Op::REDUCE,  Op::LOAD,   Op::STORE,   Op::INDEX,
                                   Op::RANGE,   Op::END,     Op::AFTER,  Op::PERMUTE, Op::RESHAPE,
                                   Op::EXPAND,  Op::SPECIAL, Op::PAD,    Op::SHRINK,  Op::WMMA};
constexpr Op kLinearOps[] = {Op::LINEAR,  Op::PARAM,  Op::BUFFER,  Op::CONST, Op::STACK,  Op::BITCAST, Op::REDUCE,
                             Op::LOAD,    Op::STORE,  Op::INDEX,   Op::RANGE, Op::END,    Op::AFTER,   Op::PERMUTE,
                             Op::RESHAPE, Op::EXPAND, Op::SPECIAL, Op::PAD,   Op::SHRINK, Op::WMMA};
constexpr Op kProgramOps[] = {Op::LINEAR, Op::PARAM,   Op::BUFFER,    Op::CONST,  Op::STACK,  Op::BITCAST,
                              Op::LOAD,   Op::STORE,   Op::INDEX,     Op::SHRINK, Op::RANGE,  Op::END,
                              Op::AFTER,  Op::SPECIAL, Op::IF,        Op::ENDIF,  Op::GROUP,  Op::BARRIER,
                              Op::SINK,   Op::WMMA,    Op::ATOMICADD, Op::CUSTOM, Op::CUSTOMI};

constexpr Op kNamedOps[] = {Op::LINEAR, Op::PARAM, Op::BUFFER,    Op::CONST,   Op::STACK,  Op::BITCAST, Op::LOAD,
                            Op::STORE,  Op::INDEX, Op::RANGE,     Op::END,     Op::AFTER,  Op::SPECIAL, Op::IF,
                            Op::ENDIF,  Op::GROUP, Op::ATOMICADD, Op::BARRIER, Op::CUSTOM, Op::CUSTOMI, Op::WMMA};
constexpr Op kGroupedOps[] = {Op::LINEAR, Op::PARAM, Op::BUFFER, Op::CONST,     Op::STACK,  Op::BITCAST,
                              Op::LOAD,   Op::STORE, Op::INDEX,  Op::RANGE,     Op::END,    Op::AFTER,
                              Op::IF,     Op::ENDIF, Op::GROUP,  Op::ATOMICADD, Op::CUSTOM, Op::CUSTOMI};

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

// Of a thread's own register, which outlives the iterations of a loop (opt/scan.h).
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

const Spec kCoreSpec = {"graph", kCoreOps, NoFault};
const Spec kTensorSpec = {"tensor graph", kTensorOps, TensorFault};
const Spec kProgramSpec = {"program", kProgramOps, NoFault};
const Spec kCallSpec = {"call list", kCallOps, NoFault};
const Spec kKernelSpec = {"kernel", kKernelOps, KernelFault};
const Spec kScheduledSpec = {"scheduled kernel", kScheduledOps, KernelFault};
const Spec kSharedOutSpec = {"kernel of work items", kSharedOutOps, KernelFault};
const Spec kExpandedSpec = {"expanded kernel", kExpandedOps, ExpandedFault};
const Spec kAccumulatingSpec = {"accumulating kernel", kAccumulatingOps, LinearFault};
const Spec kLinearSpec = {"linear kernel", kLinearOps, LinearFault};
const Spec kNamedSpec = {"program of named values", kNamedOps, NamedFault};
const Spec kGroupedSpec = {"program of loops", kGroupedOps, NamedFault};

absl::Status Verify(const Spec& spec, const Graph& graph, UOp* root) {
  const bool from_client = &spec == &kTensorSpec;
  for (UOp* uop : Toposort(root)) {
    const bool known =
        IsElementwise(uop->op()) || std::find(spec.ops.begin(), spec.ops.end(), uop->op()) != spec.ops.end();
    const char* fault = known         ? spec.fault(uop)
                        : from_client ? "this op is not supported in a tensor graph yet"
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
