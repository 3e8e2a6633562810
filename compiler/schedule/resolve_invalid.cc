#include "compiler/schedule/resolve_invalid.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "compiler/ir/build.h"
#include "compiler/schedule/callify.h"

namespace kiln::compiler {
namespace {

bool IsPoison(const UOp* uop) {
  return uop->IsInvalid() || (uop->op() == Op::PAD && std::holds_alternative<std::monostate>(uop->arg()));
}

// A node without Invalid, and where the original had none: a bool tensor of the
// node's shape, or null for everywhere.
struct Resolved {
  UOp* value = nullptr;
  UOp* valid = nullptr;
};

class Resolver {
 public:
  explicit Resolver(Graph& graph) : graph_(graph) {}

  UOp* Run(UOp* sink) {
    for (UOp* uop : Toposort(sink)) done_[uop] = Resolve(uop);
    return done_[sink].value;
  }

 private:
  Resolved Resolve(UOp* uop);
  Resolved ResolvePad(UOp* uop);
  Resolved ResolveIndex(UOp* uop);
  Resolved ResolveBitcast(UOp* uop);
  Resolved ResolveStack(UOp* uop);
  Resolved ResolveElementwise(UOp* uop);
  UOp* ResolveStore(UOp* uop);
  UOp* ResolveLoad(UOp* uop);

  UOp* True(const Shape& shape) { return Full(ConstInt(graph_, DType::kBool, 1), shape); }
  UOp* Full(UOp* scalar, const Shape& shape) {
    return shape.empty() ? scalar : Expand(graph_, Reshape(graph_, scalar, Shape(shape.size(), 1)), shape);
  }
  // `x`, which broadcasts to `shape`, in that shape.
  UOp* Spread(UOp* x, const Shape& shape) {
    Shape same_rank(shape.size() - x->shape().size(), 1);
    same_rank.insert(same_rank.end(), x->shape().begin(), x->shape().end());
    return Expand(graph_, Reshape(graph_, x, same_rank), shape);
  }
  UOp* ValidOrTrue(UOp* source) {
    UOp* valid = done_[source].valid;
    return valid == nullptr ? True(source->shape()) : valid;
  }
  // Null is true.
  UOp* Both(UOp* a, UOp* b) { return a == nullptr ? b : b == nullptr ? a : And(graph_, a, b); }
  // The value, and `otherwise` where it is Invalid.
  UOp* Or(UOp* source, UOp* otherwise) {
    const Resolved& r = done_[source];
    return r.valid == nullptr ? r.value : Where(graph_, r.valid, r.value, otherwise);
  }
  UOp* OrZero(UOp* source) { return Or(source, ConstNumber(graph_, source->dtype(), 0)); }

  // The node over the values of its sources.
  UOp* Rebuild(UOp* uop) {
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(done_[source].value);
    return graph_.Make(uop->op(), src, uop->arg());
  }

  Graph& graph_;
  absl::flat_hash_map<UOp*, Resolved> done_;
};

Resolved Resolver::Resolve(UOp* uop) {
  if (IsElementwise(uop->op())) return ResolveElementwise(uop);
  switch (uop->op()) {
    case Op::CONST:
      if (!uop->IsInvalid()) return {uop};
      return {ConstNumber(graph_, uop->dtype(), 0), ConstInt(graph_, DType::kBool, 0)};
    case Op::PAD: return ResolvePad(uop);
    case Op::INDEX: return ResolveIndex(uop);
    case Op::BITCAST: return ResolveBitcast(uop);
    case Op::STACK: return ResolveStack(uop);
    case Op::STORE: return {ResolveStore(uop)};
    case Op::LOAD: return {ResolveLoad(uop)};
    case Op::REDUCE:
      return {graph_.Make(Op::REDUCE, {Or(uop->src(0), Identity(graph_, uop->arg_as<ReduceArg>().op, uop->dtype()))},
                          uop->arg())};
    case Op::PERMUTE:
    case Op::FLIP:
    case Op::RESHAPE:
    case Op::EXPAND:
    case Op::SHRINK: {
      UOp* valid = done_[uop->src(0)].valid;
      if (valid == nullptr) return {Rebuild(uop)};
      std::vector<UOp*> src(uop->src().begin(), uop->src().end());
      src[0] = valid;
      return {Rebuild(uop), graph_.Make(uop->op(), src, uop->arg())};
    }
    case Op::AFTER: return {Rebuild(uop), done_[uop->src(0)].valid};
    case Op::GETTUPLE: return done_[uop->src(0)->src(static_cast<size_t>(uop->arg_as<int64_t>()))];
    default: return {Rebuild(uop)};
  }
}

Resolved Resolver::ResolvePad(UOp* uop) {
  const Resolved& x = done_[uop->src(0)];
  const bool poison = IsPoison(uop);
  const ConstArg zero = ConstNumber(graph_, uop->dtype(), 0)->arg_as<ConstArg>();
  Resolved padded = {graph_.Make(Op::PAD, {x.value, uop->src(1), uop->src(2)}, poison ? Arg(zero) : uop->arg())};
  if (!poison && x.valid == nullptr) return padded;
  UOp* inside = x.valid == nullptr ? True(x.value->shape()) : x.valid;
  padded.valid = graph_.Make(Op::PAD, {inside, uop->src(1), uop->src(2)}, ConstArg{DType::kBool, poison ? 0u : 1u});
  return padded;
}

Resolved Resolver::ResolveIndex(UOp* uop) {
  const Resolved& x = done_[uop->src(0)];
  std::vector<UOp*> src = {x.value};
  for (UOp* index : uop->src().subspan(1)) {
    const Resolved& i = done_[index];
    if (i.valid == nullptr) {
      src.push_back(i.value);
      continue;
    }
    // -1 is out of range, so it reads 0 and writes nothing.
    UOp* number = IsSigned(index->dtype()) ? i.value : Cast(graph_, i.value, DType::kInt64);
    src.push_back(Where(graph_, i.valid, number, ConstInt(graph_, number->dtype(), -1)));
  }
  Resolved result = {graph_.Make(Op::INDEX, src)};
  if (x.valid != nullptr) {  // what is out of range reads as 0, and is valid
    src[0] = Not(graph_, x.valid);
    result.valid = Not(graph_, graph_.Make(Op::INDEX, src));
  }
  return result;
}

// Items that are put together are valid if all of their parts are.
Resolved Resolver::ResolveBitcast(UOp* uop) {
  UOp* valid = done_[uop->src(0)].valid;
  const int from = ItemSize(uop->src(0)->dtype()), to = ItemSize(uop->dtype());
  if (valid == nullptr || from == to) return {Rebuild(uop), valid};
  // One more axis: the pieces of an item.
  Shape pieces = from < to ? uop->shape() : uop->src(0)->shape();
  const auto axis = static_cast<int64_t>(pieces.size());
  if (from < to) {
    pieces.push_back(to / from);
    UOp* missing = Reshape(graph_, Not(graph_, valid), pieces);
    missing = graph_.Make(Op::REDUCE, {missing}, ReduceArg{Op::MAX, {axis}});
    return {Rebuild(uop), Not(graph_, Reshape(graph_, missing, uop->shape()))};
  }
  pieces.push_back(1);
  UOp* single = Reshape(graph_, valid, pieces);
  pieces.back() = from / to;
  return {Rebuild(uop), Reshape(graph_, Expand(graph_, single, pieces), uop->shape())};
}

Resolved Resolver::ResolveStack(UOp* uop) {
  Resolved result = {Rebuild(uop)};
  std::vector<UOp*> valid;
  bool any = false;
  for (UOp* source : uop->src()) any |= done_[source].valid != nullptr;
  if (!any) return result;
  for (UOp* source : uop->src()) valid.push_back(ValidOrTrue(source));
  result.valid = graph_.Make(Op::STACK, valid);
  return result;
}

Resolved Resolver::ResolveElementwise(UOp* uop) {
  Resolved result = {Rebuild(uop)};
  if (uop->op() != Op::WHERE) {
    for (UOp* source : uop->src()) result.valid = Both(result.valid, done_[source].valid);
  } else {
    // Only the branch that is taken counts.
    UOp *a = uop->src(1), *b = uop->src(2);
    result.valid = done_[uop->src(0)].valid;
    if (done_[a].valid != nullptr || done_[b].valid != nullptr) {
      UOp* taken = Where(graph_, done_[uop->src(0)].value, ValidOrTrue(a), ValidOrTrue(b));
      result.valid = Both(result.valid, taken);
    }
  }
  if (result.valid != nullptr) result.valid = Spread(result.valid, uop->shape());
  return result;
}

UOp* Resolver::ResolveStore(UOp* uop) {
  UOp* value = uop->src(1);
  const bool is_result = StorageOf(uop->src(0))->op() == Op::BUFFER;
  std::vector<UOp*> src = {done_[uop->src(0)].value, is_result ? OrZero(value) : done_[value].value};
  UOp* gate = is_result ? nullptr : done_[value].valid;
  if (uop->src().size() > 2) {
    const Resolved& given = done_[uop->src(2)];
    gate = Both(gate, Both(given.value, given.valid));
  }
  if (gate != nullptr) src.push_back(gate);
  return graph_.Make(Op::STORE, src);
}

UOp* Resolver::ResolveLoad(UOp* uop) {
  std::vector<UOp*> src = {OrZero(uop->src(0))};
  if (uop->src().size() > 1) src.push_back(OrZero(uop->src(1)));
  if (uop->src().size() > 2) src.push_back(Both(done_[uop->src(2)].value, done_[uop->src(2)].valid));
  return graph_.Make(Op::LOAD, src);
}

}  // namespace

UOp* ResolveInvalid(Graph& graph, UOp* sink) {
  const std::vector<UOp*> order = Toposort(sink);
  if (std::none_of(order.begin(), order.end(), IsPoison)) return sink;
  return Resolver(graph).Run(sink);
}

}  // namespace kiln::compiler
