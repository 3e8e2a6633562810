#include "compiler/target/cstyle/work_items.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/list_rewrite.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

absl::string_view NameOf(const UOp* special) { return special->arg_as<TextArg>().text; }
bool IsItem(const UOp* special) { return absl::StartsWith(NameOf(special), "l"); }

// Outermost first: groups by falling coordinate, then items.
std::vector<UOp*> Specials(UOp* linear) {
  std::vector<UOp*> specials;
  for (UOp* uop : linear->src()) {
    if (uop->op() == Op::SPECIAL && std::find(specials.begin(), specials.end(), uop) == specials.end())
      specials.push_back(uop);
  }
  std::stable_sort(specials.begin(), specials.end(), [](const UOp* a, const UOp* b) {
    if (IsItem(a) != IsItem(b)) return IsItem(b);
    return NameOf(a) > NameOf(b);
  });
  return specials;
}

std::vector<UOp*> Buffers(UOp* linear, AddrSpace space) {
  std::vector<UOp*> buffers;
  for (UOp* uop : Toposort(linear)) {
    if (uop->op() == Op::BUFFER && uop->addrspace() == space) buffers.push_back(uop);
  }
  return buffers;
}

absl::StatusOr<UOp*> WithoutAtomics(Graph& graph, UOp* linear) {
  return RewriteList(graph, linear, [&](UOp* uop) -> absl::StatusOr<UOp*> {
    if (uop->op() != Op::ATOMICADD) return uop;
    // Marked with what it adds: each addition reads anew.
    UOp* before = graph.Make(Op::LOAD, {graph.Make(Op::AFTER, {uop->src(0), uop->src(1)})});
    return graph.Make(Op::STORE, {uop->src(0), Add(graph, before, uop->src(1))});
  });
}

}  // namespace

absl::StatusOr<UOp*> LoopOverItems(Graph& graph, UOp* linear) {
  KILN_ASSIGN_OR_RETURN(linear, WithoutAtomics(graph, linear));
  const std::vector<UOp*> specials = Specials(linear);
  const bool many_items = std::any_of(specials.begin(), specials.end(), [](const UOp* special) {
    return IsItem(special) && !special->src(0)->IsConstInt(1);
  });
  if (many_items) {
    for (UOp* uop : linear->src()) {
      if (uop->op() == Op::BARRIER)
        return graph.Locate(MakeError(v1::UNSUPPORTED_OP, "a BARRIER, in a language that runs one item at a time"),
                            uop);
    }
  }
  absl::flat_hash_map<UOp*, UOp*> loops;
  for (UOp* special : specials) {
    const AxisType type = IsItem(special) ? AxisType::kLocal : AxisType::kGlobal;
    loops[special] = graph.Make(Op::RANGE, {special->src(0)}, RangeArg{graph.NextId(), type});
  }
  std::vector<UOp*> list, closed = {graph.Make(Op::GROUP, {})};
  const auto open = [&](bool items) {
    for (UOp* special : specials) {
      if (IsItem(special) != items) continue;
      list.push_back(loops[special]);
      closed.push_back(loops[special]);
    }
  };
  open(false);
  for (UOp* buffer : Buffers(linear, AddrSpace::kLocal)) list.push_back(buffer);
  open(true);
  for (UOp* buffer : Buffers(linear, AddrSpace::kReg)) list.push_back(buffer);
  const UOp* looped = Substitute(linear, loops, graph);
  for (size_t i = 0; i < looped->src().size(); ++i) {
    const Op op = linear->src(i)->op();
    if (op != Op::SPECIAL && op != Op::BUFFER && op != Op::BARRIER) list.push_back(looped->src(i));
  }
  if (!specials.empty()) {
    list.push_back(closed[0]);
    list.push_back(graph.Make(Op::END, closed));
  }
  return graph.Make(Op::LINEAR, list, linear->arg());
}

absl::StatusOr<UOp*> ZeroShared(Graph& graph, UOp* linear) {
  const std::vector<UOp*> shared = Buffers(linear, AddrSpace::kLocal);
  if (shared.empty()) return linear;
  const std::vector<UOp*> specials = Specials(linear);
  std::vector<UOp*> list;
  UOp* item = Idx(graph, 0);
  int64_t items = 1;
  for (UOp* special : specials) {
    list.push_back(special);
    if (!IsItem(special)) continue;
    if (!special->src(0)->IsConst())
      return graph.Locate(MakeError(v1::UNSUPPORTED_OP, "a number of items that is not constant"), special);
    const int64_t bound = special->src(0)->const_int();
    item = items == 1 && item->IsConst() ? special : Add(graph, Mul(graph, item, Idx(graph, bound)), special);
    if (item != special) {
      list.push_back(item->src(0));
      list.push_back(item);
    }
    items *= std::max<int64_t>(bound, 1);
  }
  for (UOp* buffer : shared) {
    const int64_t size = NumElements(buffer->shape());
    UOp* flat = graph.Make(Op::BUFFER, {ShapeSource(graph, {size})}, buffer->arg());
    UOp* turn = graph.Make(Op::RANGE, {Idx(graph, (size + items - 1) / items)}, RangeArg{graph.NextId()});
    UOp* first = Mul(graph, turn, Idx(graph, items));
    UOp* place = Add(graph, first, item);
    UOp* inside = Lt(graph, place, Idx(graph, size));
    UOp* pointer = graph.Make(Op::INDEX, {flat, place});
    UOp* store = graph.Make(Op::STORE, {pointer, ConstNumber(graph, buffer->dtype(), 0), inside});
    for (UOp* uop : {turn, first, place, inside, pointer, store, graph.Make(Op::END, {store, turn})})
      list.push_back(uop);
  }
  list.push_back(graph.Make(Op::BARRIER, {}));
  for (UOp* uop : linear->src()) {
    if (uop->op() != Op::SPECIAL) list.push_back(uop);
  }
  return graph.Make(Op::LINEAR, list, linear->arg());
}

}  // namespace kiln::compiler
