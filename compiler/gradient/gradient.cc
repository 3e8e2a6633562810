#include "compiler/gradient/gradient.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/gradient/layouts.h"
#include "compiler/gradient/rules.h"
#include "compiler/import/as_sent.h"
#include "compiler/import/wire.h"
#include "compiler/ir/build.h"
#include "compiler/ir/devices.h"
#include "compiler/ir/movement.h"

namespace kiln::compiler {
namespace {

bool IsStorage(const UOp* uop) { return uop->op() == Op::PARAM || uop->op() == Op::BUFFER; }

absl::Status BadRequest(v1::ErrorCode code, absl::string_view field, absl::string_view text) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(std::string(field));
  return MakeError(std::move(detail), text);
}

absl::Status BadSlot(v1::ErrorCode code, absl::string_view field, uint32_t slot, absl::string_view text) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(std::string(field));
  detail.set_slot(slot);
  return MakeError(std::move(detail), absl::StrCat("slot ", slot, ": ", text));
}

absl::Status TooLarge(absl::string_view limit, uint64_t limit_value, uint64_t used) {
  return kiln::TooLarge(
      limit, limit_value, used,
      absl::StrCat("the gradient's graph has ", used, " ", limit, "; this server takes ", limit_value));
}

absl::Status CheckProgram(const Graph& graph, UOp* root) {
  if (root->op() != Op::TUPLE && root->op() != Op::SINK) {
    return graph.Locate(
        MakeError(v1::BAD_ROOT,
                  absl::StrCat("the last node is the root and must be a TUPLE or a SINK, not ", Name(root->op()))),
        root);
  }
  for (UOp* uop : Toposort(root)) {
    if (uop->op() != Op::STORE) continue;
    return graph.Locate(MakeError(v1::BAD_ARGUMENT,
                                  "a program with a STORE has no gradient; leave updates out, and put them round the "
                                  "gradient's graph"),
                        uop);
  }
  return absl::OkStatus();
}

absl::StatusOr<UOp*> PickResult(const Graph& graph, UOp* root, uint32_t number) {
  if (number >= root->src().size()) {
    return BadRequest(
        v1::BAD_ARGUMENT, "result",
        absl::StrCat("result ", number, " of a program with ", root->src().size(), "; results are counted from 0"));
  }
  UOp* result = root->src(number);
  if (IsFloat(result->dtype())) return result;
  return graph.Locate(MakeError(v1::DTYPE_MISMATCH, absl::StrCat("result ", number, " is ", Name(result->dtype()),
                                                                 "; only floats have gradients")),
                      result);
}

// The nodes that stand for each slot asked for.
using SlotNodes = absl::flat_hash_map<uint32_t, std::vector<UOp*>>;

absl::StatusOr<SlotNodes> FindSlots(UOp* root, const GradientSpec& spec) {
  SlotNodes all, wanted;
  for (UOp* uop : Toposort(root)) {
    if (IsStorage(uop)) all[uop->arg_as<BufferArg>().slot].push_back(uop);
  }
  if (spec.cotangent_slot && all.contains(*spec.cotangent_slot)) {
    return BadSlot(v1::BAD_ARGUMENT, "cotangent_slot", *spec.cotangent_slot,
                   "the program uses it already; the cotangent needs one of its own");
  }
  if (spec.wrt_slots.empty()) {
    return BadRequest(v1::BAD_ARGUMENT, "wrt_slot", "with respect to what? wrt_slot names no slot");
  }
  for (uint32_t slot : spec.wrt_slots) {
    const auto found = all.find(slot);
    if (found == all.end()) return BadSlot(v1::UNKNOWN_ARGUMENT, "wrt_slot", slot, "the program has no such slot");
    for (const UOp* uop : found->second) {
      if (IsFloat(uop->dtype())) continue;
      return BadSlot(v1::DTYPE_MISMATCH, "wrt_slot", slot,
                     absl::StrCat("is ", Name(uop->dtype()), "; only floats have gradients"));
    }
    if (found->second[0]->shape() != found->second.back()->shape() ||
        found->second[0]->dtype() != found->second.back()->dtype()) {
      return BadSlot(v1::BAD_ARGUMENT, "wrt_slot", slot, "has two dtypes or shapes in the program");
    }
    wanted[slot] = found->second;
  }
  return wanted;
}

absl::StatusOr<UOp*> Cotangent(Graph& graph, UOp* result, const GradientSpec& spec) {
  if (spec.cotangent_slot) {
    if (*spec.cotangent_slot >= 1u << 16) {
      return BadSlot(v1::BAD_ARGUMENT, "cotangent_slot", *spec.cotangent_slot, "slots are below 65536");
    }
    BufferArg arg;
    arg.slot = *spec.cotangent_slot;
    arg.dtype = result->dtype();
    arg.name = "cotangent";
    // A PARAM on a tuple is split along its first axis.
    const bool fits = DeviceCount(result->device()) == 1 || result->axis() == 0;
    arg.device = fits ? result->device() : SplitDevices(result->device())[0];
    return LaidOutAs(graph, graph.Make(Op::PARAM, {ShapeSource(graph, result->shape())}, arg), result);
  }
  if (NumElements(result->shape()) == 1) return Filled(graph, result->dtype(), result->shape(), 1);
  return BadRequest(v1::BAD_ARGUMENT, "cotangent_slot",
                    absl::StrCat("result ", spec.result, " has shape ", ToString(result->shape()),
                                 "; only a single number can do without a cotangent_slot"));
}

// What `result` depends on through values that a gradient may pass: sources first.
std::vector<UOp*> Reached(UOp* result) {
  std::vector<UOp*> order, stack = {result};
  absl::flat_hash_set<UOp*> seen = {result};
  while (!stack.empty()) {
    UOp* uop = stack.back();
    stack.pop_back();
    order.push_back(uop);
    if (uop->op() == Op::DETACH) continue;
    for (UOp* source : uop->src()) {
      if (seen.insert(source).second) stack.push_back(source);
    }
  }
  std::sort(order.begin(), order.end(), [](const UOp* a, const UOp* b) { return a->id() < b->id(); });
  return order;
}

// Walks back from `result`. What has arrived at each node when it is its turn is
// all that ever will, for its users come before it.
class Backward {
 public:
  Backward(Graph& graph, UOp* result, const SlotNodes& wrt) : graph_(graph), order_(Reached(result)) {
    absl::flat_hash_set<UOp*> roots;
    for (const auto& [slot, nodes] : wrt) roots.insert(nodes.begin(), nodes.end());
    for (UOp* uop : order_) {
      const bool passes = (IsFloat(uop->dtype()) || uop->op() == Op::BITCAST) && uop->op() != Op::DETACH;
      const bool depends = std::any_of(uop->src().begin(), uop->src().end(), [this](UOp* s) { return Active(s); });
      if (roots.contains(uop) || (passes && depends)) active_.insert(uop);
    }
  }

  absl::Status Run(UOp* result, UOp* cotangent) {
    arrived_[result] = cotangent;
    for (size_t i = order_.size(); i-- > 0;) {
      UOp* uop = order_[i];
      if (!Active(uop) || uop->src().empty() || IsStorage(uop)) continue;
      // Bits are integers here, at which nothing arrives; still they may matter.
      const auto found = arrived_.find(uop);
      const bool bits = uop->op() == Op::BITCAST && uop->dtype() != uop->src(0)->dtype() && Active(uop->src(0));
      if (found == arrived_.end() && !bits) continue;
      std::vector<bool> wanted;
      for (UOp* source : uop->src()) wanted.push_back(Active(source));
      Vjp vjp(graph_, uop, found == arrived_.end() ? uop : found->second, wanted);
      if (absl::Status status = ApplyRuleOnDevices(vjp); !status.ok()) return graph_.Locate(status, uop);
      for (size_t k = 0; k < uop->src().size(); ++k) {
        if (vjp.given(k) != nullptr) Arrive(uop->src(k), vjp.given(k));
      }
    }
    return absl::OkStatus();
  }

  UOp* Arrived(UOp* uop) const {
    const auto found = arrived_.find(uop);
    return found == arrived_.end() ? nullptr : found->second;
  }

 private:
  bool Active(UOp* uop) const { return active_.contains(uop); }

  void Arrive(UOp* uop, UOp* cotangent) {
    UOp*& sum = arrived_[uop];
    sum = sum == nullptr ? cotangent : SumOfCotangents(graph_, sum, cotangent);
  }

  Graph& graph_;
  const std::vector<UOp*> order_;
  absl::flat_hash_set<UOp*> active_;  // depends on what is differentiated by
  absl::flat_hash_map<UOp*, UOp*> arrived_;
};

}  // namespace

absl::StatusOr<UOp*> GradientProgram(Graph& graph, UOp* root, const GradientSpec& spec) {
  KILN_RETURN_IF_ERROR(CheckProgram(graph, root));
  KILN_ASSIGN_OR_RETURN(UOp * result, PickResult(graph, root, spec.result));
  KILN_ASSIGN_OR_RETURN(const SlotNodes wrt, FindSlots(root, spec));
  KILN_ASSIGN_OR_RETURN(UOp * cotangent, Cotangent(graph, result, spec));

  Backward backward(graph, result, wrt);
  KILN_RETURN_IF_ERROR(backward.Run(result, cotangent));

  std::vector<UOp*> values;
  if (spec.include_results) values.assign(root->src().begin(), root->src().end());
  for (uint32_t slot : spec.wrt_slots) {
    UOp* sum = nullptr;
    for (UOp* param : wrt.at(slot)) {
      UOp* gradient = backward.Arrived(param);
      if (gradient != nullptr) sum = sum == nullptr ? gradient : SumOfCotangents(graph, sum, gradient);
    }
    const UOp* param = wrt.at(slot)[0];
    if (sum == nullptr) sum = Filled(graph, param->dtype(), param->shape(), 0);
    values.push_back(LaidOutAs(graph, sum, param));
  }
  return graph.Make(Op::TUPLE, values);
}

namespace {

absl::StatusOr<v1::GradientResponse> GradientOf(const v1::GradientRequest& request, const Limits& limits) {
  Graph graph;
  KILN_ASSIGN_OR_RETURN(UOp * root, FromWire(request.graph(), limits, graph));
  for (const UOp* uop : Toposort(root)) {
    if (!uop->IsVariable()) continue;
    return graph.Locate(MakeError(v1::UNSUPPORTED_OP, "gradients of programs with variables are not supported"), uop);
  }
  GradientSpec spec;
  spec.result = request.result();
  spec.wrt_slots.assign(request.wrt_slot().begin(), request.wrt_slot().end());
  if (request.has_cotangent_slot()) spec.cotangent_slot = request.cotangent_slot();
  spec.include_results = request.include_results();
  KILN_ASSIGN_OR_RETURN(root, GradientProgram(graph, root, spec));

  v1::GradientResponse answer;
  *answer.mutable_graph() = ToWire(root);
  for (const UOp* value : root->src()) {
    v1::Signature::Result* result = answer.add_results();
    result->set_dtype(ToWire(value->dtype()));
    result->mutable_shape()->Add(value->shape().begin(), value->shape().end());
    result->set_bytes(static_cast<uint64_t>(NumElements(value->shape()) * ItemSize(value->dtype())));
  }
  const uint64_t nodes = static_cast<uint64_t>(answer.graph().nodes_size()), bytes = answer.graph().ByteSizeLong();
  if (nodes > limits.max_nodes) return TooLarge("nodes", limits.max_nodes, nodes);
  if (bytes > limits.max_bytes) return TooLarge("bytes", limits.max_bytes, bytes);
  return answer;
}

}  // namespace

absl::StatusOr<v1::GradientResponse> Gradient(const v1::GradientRequest& request, const Limits& limits) {
  absl::StatusOr<v1::GradientResponse> answer = GradientOf(request, limits);
  if (!answer.ok()) return AsSent(answer.status(), request.graph());
  return answer;
}

}  // namespace kiln::compiler
