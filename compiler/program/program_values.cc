#include "compiler/program/program_values.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"
#include "compiler/program/program_tree.h"
#include "compiler/program/wmma.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

bool IsStorage(const UOp* uop) {
  return (uop->op() == Op::PARAM || uop->op() == Op::BUFFER) && uop->addrspace() != AddrSpace::kAlu;
}

bool Points(const UOp* uop) { return uop->op() == Op::INDEX || uop->op() == Op::SHRINK || uop->op() == Op::AFTER; }

class Namer {
 public:
  Namer(Graph& graph, UOp* linear, const HasWmma& has_wmma)
      : graph_(graph), linear_(linear), wmma_(graph, linear, has_wmma) {
    for (UOp* uop : Toposort(linear)) {
      if (IsStorage(uop)) storage_[uop] = uop;
      if (!Points(uop)) continue;
      if (const auto under = storage_.find(uop->src(0)); under != storage_.end()) storage_[uop] = under->second;
    }
  }

  absl::StatusOr<UOp*> Run() {
    undo_.emplace_back();
    for (UOp* uop : linear_->src()) {
      if (absl::Status status = Take(uop); !status.ok()) return graph_.Locate(status, uop);
    }
    return graph_.Make(Op::LINEAR, list_, linear_->arg());
  }

 private:
  absl::Status Take(UOp* uop) {
    switch (uop->op()) {
      case Op::GROUP:
      case Op::SINK:
      case Op::PARAM:
      case Op::BUFFER:
      case Op::CONST: return absl::OkStatus();
      case Op::RANGE: return TakeRange(uop);
      case Op::IF: {
        KILN_ASSIGN_OR_RETURN(UOp * gate, Value(uop->src(0)));
        if (!gate->shape().empty()) return MakeError(v1::SHAPE_MISMATCH, "IF wants one bool, not lanes");
        Open(List(uop, graph_.Make(Op::IF, {gate})));
        return absl::OkStatus();
      }
      case Op::END:
        for (size_t k = 1; k < uop->src().size(); ++k) CloseInnermost();
        return absl::OkStatus();
      case Op::ENDIF: CloseInnermost(); return absl::OkStatus();
      case Op::BARRIER: List(uop, graph_.Make(Op::BARRIER, {})); return absl::OkStatus();
      case Op::STORE:
      case Op::ATOMICADD: return TakeStore(uop);
      case Op::CUSTOM: {
        std::vector<UOp*> src;
        KILN_RETURN_IF_ERROR(Operands(uop, src));
        List(uop, graph_.Make(Op::CUSTOM, src, uop->arg()));
        return absl::OkStatus();
      }
      case Op::LOAD: return TakeLoad(uop);
      case Op::WMMA: return TakeWmma(uop);
      case Op::STACK: return NeedsNoListing(uop) ? absl::OkStatus() : TakeValue(uop);
      case Op::SPECIAL: return Know(uop, graph_.Make(Op::SPECIAL, {Cast(graph_, uop->src(0), kIndexType)}, uop->arg()));
      default: return TakeValue(uop);
    }
  }

  absl::Status TakeRange(UOp* uop) {
    KILN_ASSIGN_OR_RETURN(UOp * bound, Value(uop->src(0)));
    UOp* loop = graph_.Make(Op::RANGE, {Cast(graph_, bound, kIndexType)}, RangeArg{graph_.NextId(), AxisType::kLoop});
    Open(List(uop, loop));
    return Know(uop, loop);
  }

  absl::Status TakeStore(UOp* uop) {
    KILN_ASSIGN_OR_RETURN(UOp * pointer, Pointer(uop->src(0)));
    std::vector<UOp*> src = {pointer};
    KILN_RETURN_IF_ERROR(Operands(uop, src));
    KILN_ASSIGN_OR_RETURN(UOp * made, graph_.TryMake(uop->op(), src));
    List(uop, made);
    return absl::OkStatus();
  }

  absl::Status TakeLoad(UOp* uop) {
    if (!storage_.contains(uop->src(0))) return TakeAlias(uop);  // of a value: the value
    KILN_ASSIGN_OR_RETURN(UOp * pointer, Pointer(uop->src(0)));
    std::vector<UOp*> src = {pointer};
    KILN_RETURN_IF_ERROR(Operands(uop, src));
    // Out of range, a LOAD gives its alternative even if its gate is always true: until
    // the bounds pass has seen it, no rule is to know that.
    if (src.size() > 2) src[2] = graph_.Make(Op::AFTER, {src[2], Idx(graph_, 0)});
    KILN_ASSIGN_OR_RETURN(UOp * load, graph_.TryMake(Op::LOAD, src));
    graph_.InheritOrigin(load, uop);
    return Know(uop, List(uop, graph_.Make(Op::AFTER, {load, Idx(graph_, graph_.NextId())})));
  }

  absl::Status TakeWmma(UOp* uop) {
    std::vector<UOp*> operands;
    for (UOp* source : uop->src()) {
      KILN_ASSIGN_OR_RETURN(operands.emplace_back(), Value(source));
    }
    KILN_ASSIGN_OR_RETURN(UOp * product, wmma_.Lower(uop, operands, list_));
    return Know(uop, product);
  }

  absl::Status TakeAlias(UOp* uop) {
    KILN_ASSIGN_OR_RETURN(UOp * value, Value(uop->src(0)));
    return Know(uop, value);
  }

  // Arithmetic, and pointers.
  absl::Status TakeValue(UOp* uop) {
    if (storage_.contains(uop)) {
      UOp* place = uop;
      while (place->op() == Op::AFTER && !values_.contains(place)) place = place->src(0);
      if (IsStorage(place)) return absl::OkStatus();  // all of it: what is accessed is known at the access
      KILN_ASSIGN_OR_RETURN(UOp * made, MakePointer(uop));
      graph_.InheritOrigin(made, uop);
      return Know(uop, made);
    }
    if (uop->op() == Op::AFTER) return uop->dtype() == DType::kVoid ? absl::OkStatus() : TakeAlias(uop);
    const bool known = IsElementwise(uop->op()) || uop->op() == Op::STACK || uop->op() == Op::INDEX ||
                       uop->op() == Op::BITCAST || uop->op() == Op::CUSTOMI;
    if (!known) {
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat(Name(uop->op()), " is no instruction of a LINEAR program"));
    }
    std::vector<UOp*> src;
    KILN_RETURN_IF_ERROR(Operands(uop, src));
    if (uop->op() == Op::INDEX) return TakeLane(uop, src);
    KILN_ASSIGN_OR_RETURN(UOp * made, graph_.TryMake(uop->op(), src, uop->arg()));
    if (made->shape().size() > 1 || NumElements(made->shape()) > kMaxLanes || NumElements(made->shape()) == 0) {
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("a value of shape ", ToString(made->shape()),
                                                        " in a program; it may have up to ", kMaxLanes, " lanes"));
    }
    return Know(uop, made);
  }

  absl::Status TakeLane(UOp* uop, absl::Span<UOp* const> src) {
    if (src.size() != 2 || src[0]->shape().size() != 1 || !src[1]->IsConst())
      return MakeError(v1::UNSUPPORTED_OP, "INDEX of a value takes one lane of a vector, by a CONST");
    const int64_t lane = src[1]->const_int();
    if (lane < 0 || lane >= src[0]->shape()[0]) return Know(uop, ConstNumber(graph_, uop->dtype(), 0));
    return Know(uop, graph_.Make(Op::INDEX, {src[0], Idx(graph_, lane)}));
  }

  // -- Pointers

  absl::StatusOr<UOp*> Pointer(UOp* uop) {
    if (const auto found = values_.find(uop); found != values_.end()) return found->second;
    if (!storage_.contains(uop))
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat(Name(uop->op()), " is no place in memory"));
    return MakePointer(uop);
  }

  // INDEX(storage, i...) with an int64 index for each axis; the last may be of lanes.
  absl::StatusOr<UOp*> MakePointer(UOp* uop) {
    UOp* place = uop;
    while (place->op() == Op::AFTER && (place == uop || !values_.contains(place))) place = place->src(0);
    UOp* under = place->op() == Op::INDEX || place->op() == Op::SHRINK ? place->src(0) : place;
    while (under->op() == Op::AFTER) under = under->src(0);
    if (place != uop && values_.contains(place)) return Pointer(place);
    if (!IsStorage(under)) {
      return MakeError(v1::UNSUPPORTED_OP,
                       absl::StrCat("a pointer through ", Name(place->op()), " of ", Name(under->op()),
                                    "; it is one INDEX or SHRINK of a PARAM or BUFFER"));
    }
    std::vector<UOp*> src = {under};
    if (place->op() == Op::SHRINK) {
      KILN_ASSIGN_OR_RETURN(UOp * index, ShrinkIndex(place));
      src.push_back(index);
    } else if (place->op() == Op::INDEX) {
      for (UOp* given : place->src().subspan(1)) {
        KILN_ASSIGN_OR_RETURN(UOp * index, Value(given));
        src.push_back(Cast(graph_, index, kIndexType));
      }
    }
    // What is not indexed is lanes.
    const Shape& shape = under->shape();
    if (src.size() == shape.size() && shape.back() > 0 && shape.back() <= kMaxLanes)
      src.push_back(Iota(graph_, shape.back()));
    if (src.size() != shape.size() + 1) {
      return MakeError(v1::UNSUPPORTED_OP,
                       absl::StrCat("a pointer into storage of shape ", ToString(shape), " with ", src.size() - 1,
                                    " indices; it has one for each axis, or one less for up to ", kMaxLanes, " lanes"));
    }
    KILN_ASSIGN_OR_RETURN(UOp * made, graph_.TryMake(Op::INDEX, src));
    if (made->shape().size() > 1 || NumElements(made->shape()) > kMaxLanes || NumElements(made->shape()) == 0) {
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("a pointer to a tensor of shape ", ToString(made->shape()),
                                                        "; at most one index has lanes, up to ", kMaxLanes));
    }
    return made;
  }

  // SHRINK(storage, offset, CONST n): n neighbours.
  absl::StatusOr<UOp*> ShrinkIndex(UOp* shrink) {
    auto only = [](UOp* uop) { return uop->op() == Op::STACK && uop->src().size() == 1 ? uop->src(0) : uop; };
    UOp* size = only(shrink->src(2));
    if (shrink->src(0)->shape().size() != 1 || !size->IsConst() || size->const_int() <= 0 ||
        size->const_int() > kMaxLanes) {
      return MakeError(v1::UNSUPPORTED_OP,
                       absl::StrCat("SHRINK of storage in a program gives a CONST number of neighbours in "
                                    "one dimension, up to ",
                                    kMaxLanes));
    }
    KILN_ASSIGN_OR_RETURN(UOp * offset, Value(only(shrink->src(1))));
    UOp* first = Cast(graph_, offset, kIndexType);
    // An offset that is no int64 would come back as -1 or so, and its neighbours be inside.
    if (offset->bounds().max > BoundsOf(kIndexType).max)
      first = Where(graph_, Lt(graph_, first, Idx(graph_, 0)), Idx(graph_, -kMaxLanes), first);
    return Add(graph_, first, Iota(graph_, size->const_int()));
  }

  // -- Values

  absl::Status Operands(UOp* uop, std::vector<UOp*>& src) {
    for (UOp* source : uop->src().subspan(src.size())) {
      KILN_ASSIGN_OR_RETURN(src.emplace_back(), Value(source));
    }
    return absl::OkStatus();
  }

  // What `uop` is now.
  absl::StatusOr<UOp*> Value(UOp* uop) {
    if (const auto found = values_.find(uop); found != values_.end()) return found->second;
    if (IsStorage(uop) || uop->op() == Op::INDEX || uop->op() == Op::SHRINK)
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat(Name(uop->op()), " is a place in memory, not a value: LOAD it"));
    if ((uop->op() == Op::CONST && !uop->IsInvalid()) || uop->IsVariable()) return uop;
    if (uop->op() == Op::STACK && NeedsNoListing(uop)) return uop;
    return MakeError(v1::UNSUPPORTED_OP, absl::StrCat(Name(uop->op()), uop->IsInvalid() ? " Invalid" : "",
                                                      " as a value in a LINEAR program"));
  }

  UOp* List(UOp* from, UOp* made) {
    graph_.InheritOrigin(made, from);
    list_.push_back(made);
    return made;
  }

  // From here on, until the loop or IF around closes, `uop` is `value`.
  absl::Status Know(UOp* uop, UOp* value) {
    graph_.InheritOrigin(value, uop);
    UOp*& now = values_[uop];
    undo_.back().emplace_back(uop, now);
    now = value;
    return absl::OkStatus();
  }

  void Open(UOp* opener) {
    undo_.emplace_back();
    open_.push_back(opener);
  }

  void CloseInnermost() {
    list_.push_back(Closing(graph_, open_.back()));
    open_.pop_back();
    for (auto at = undo_.back().rbegin(); at != undo_.back().rend(); ++at) {
      if (at->second == nullptr) {
        values_.erase(at->first);
      } else {
        values_[at->first] = at->second;
      }
    }
    undo_.pop_back();
  }

  Graph& graph_;
  UOp* const linear_;
  WmmaLowering wmma_;
  absl::flat_hash_map<UOp*, UOp*> storage_;  // under each pointer
  std::vector<UOp*> list_;
  absl::flat_hash_map<UOp*, UOp*> values_;                // of the nodes listed so far in open scopes
  std::vector<std::vector<std::pair<UOp*, UOp*>>> undo_;  // by scope: a node, and what it was before
  std::vector<UOp*> open_;
};

}  // namespace

absl::StatusOr<UOp*> NameValues(Graph& graph, UOp* linear, const HasWmma& has_wmma) {
  return Namer(graph, linear, has_wmma).Run();
}

}  // namespace kiln::compiler
