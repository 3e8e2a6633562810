#include "compiler/gradient/layouts.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/build.h"
#include "compiler/ir/devices.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/movement.h"

namespace kiln::compiler {
namespace {

UOp* CopyTo(Graph& graph, UOp* value, std::string devices) {
  return graph.Make(Op::LOAD, {value}, TextArg{std::move(devices)});
}

// A COPY to a tuple splits axis 0.
UOp* SplitAlong(Graph& graph, UOp* value, const std::string& devices, int axis) {
  std::vector<int64_t> order = {axis};
  for (int i = 0; i < static_cast<int>(value->shape().size()); ++i) {
    if (i != axis) order.push_back(i);
  }
  UOp* copied = CopyTo(graph, PermuteTo(graph, value, order), devices);
  return PermuteTo(graph, copied, InverseOrder(order));
}

UOp* WholeOnEach(Graph& graph, UOp* value, const std::string& devices) {
  Shape row = value->shape(), rows = value->shape();
  row.insert(row.begin(), 1);
  rows.insert(rows.begin(), DeviceCount(devices));
  UOp* copied = CopyTo(graph, Expand(graph, ReshapeTo(graph, value, row), rows), devices);
  return graph.Make(Op::REPLICATED, {copied}, int64_t{0});
}

bool IsSplit(const UOp* uop) { return uop->axis() >= 0; }

// Whether the rule is legal with operands that are split as the op itself allows, and a
// cotangent that is split as its value is, or whole.
bool WorksShareByShare(const UOp* uop) {
  if (IsElementwise(uop->op())) return true;
  switch (uop->op()) {
    case Op::LOAD: return uop->src().size() == 1;
    case Op::REDUCE: return uop->src().size() == 1 && uop->arg_as<ReduceArg>().op != Op::MUL;
    case Op::RESHAPE:
    case Op::PERMUTE:
    case Op::FLIP:
    case Op::PAD:
    case Op::SHRINK:
    case Op::EXPAND:
    case Op::AFTER:
    case Op::BITCAST:
    case Op::REPLICATED:
    case Op::CONTIGUOUS_BACKWARD:
    case Op::DETACH: return true;
    default: return false;
  }
}

// Whether it is legal too with a cotangent that is split along any axis, of a whole value.
bool TakesAnySplit(const UOp* uop) {
  return IsElementwise(uop->op()) || uop->op() == Op::EXPAND || uop->op() == Op::PERMUTE || uop->op() == Op::LOAD;
}

}  // namespace

UOp* LaidOutAs(Graph& graph, UOp* value, const UOp* model) {
  const std::string& devices = model->device();
  if (DeviceCount(devices) == 1) {
    if (devices.empty())
      return DeviceCount(value->device()) == 1 ? value : CopyTo(graph, value, SplitDevices(value->device())[0]);
    return value->device().empty() || value->device() == devices ? value : CopyTo(graph, value, devices);
  }
  if (value->device() == devices && value->axis() == model->axis()) return value;
  return IsSplit(model) ? SplitAlong(graph, value, devices, model->axis()) : WholeOnEach(graph, value, devices);
}

UOp* SumOfCotangents(Graph& graph, UOp* a, UOp* b) {
  const bool apart = !a->device().empty() && !b->device().empty() && a->device() != b->device();
  const bool crossed = IsSplit(a) && IsSplit(b) && a->axis() != b->axis();
  return Add(graph, a, apart || crossed ? LaidOutAs(graph, b, a) : b);
}

absl::Status ApplyRuleOnDevices(Vjp& vjp) {
  Graph& graph = vjp.graph;
  UOp* const uop = vjp.uop;
  const auto is_split = [](const UOp* source) { return IsSplit(source); };
  const bool any_split = IsSplit(vjp.dy) || IsSplit(uop) || std::any_of(uop->src().begin(), uop->src().end(), is_split);
  if (!any_split) return ApplyGradientRule(vjp);
  const bool works = WorksShareByShare(uop);
  const bool as_it_is = !IsSplit(vjp.dy) || vjp.dy->axis() == uop->axis() || (!IsSplit(uop) && TakesAnySplit(uop));
  if (works && as_it_is) return ApplyGradientRule(vjp);

  const auto whole = [&](UOp* value) { return IsSplit(value) ? WholeOnEach(graph, value, value->device()) : value; };
  std::vector<UOp*> sources;
  std::vector<bool> wanted;
  for (size_t i = 0; i < uop->src().size(); ++i) {
    sources.push_back(works ? uop->src(i) : whole(uop->src(i)));
    wanted.push_back(vjp.Wants(i));
  }
  UOp* same = works ? uop : graph.Make(uop->op(), sources, uop->arg());
  UOp* dy = works ? LaidOutAs(graph, vjp.dy, uop) : whole(vjp.dy);
  Vjp inner(graph, same, dy, wanted);
  if (absl::Status status = ApplyGradientRule(inner); !status.ok()) return status;
  for (size_t i = 0; i < uop->src().size(); ++i) {
    if (inner.given(i) != nullptr) vjp.Give(i, inner.given(i));
  }
  return absl::OkStatus();
}

}  // namespace kiln::compiler
