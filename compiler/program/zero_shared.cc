#include "compiler/program/zero_shared.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "compiler/ir/build.h"
#include "compiler/program/program_tree.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

// As many STOREs are listed one by one, with places that are known: LLVM keeps such storage in registers.
constexpr int64_t kFewElements = 64;

std::vector<UOp*> BuffersOf(UOp* linear, AddrSpace space) {
  std::vector<UOp*> buffers;
  for (UOp* uop : Toposort(linear)) {
    if (uop->op() == Op::BUFFER && uop->addrspace() == space) buffers.push_back(uop);
  }
  return buffers;
}

}  // namespace

UOp* ZeroRegisters(Graph& graph, UOp* linear) {
  std::vector<UOp*> list;
  for (UOp* buffer : BuffersOf(linear, AddrSpace::kReg)) {
    const auto zero = [&](UOp* place) {
      UOp* pointer = graph.Make(Op::INDEX, {buffer, place});
      list.push_back(graph.Make(Op::STORE, {pointer, ConstNumber(graph, buffer->dtype(), 0)}));
    };
    const int64_t size = NumElements(buffer->shape());
    if (size <= kFewElements) {
      for (int64_t i = 0; i < size; ++i) zero(Idx(graph, i));
    } else {
      UOp* loop = graph.Make(Op::RANGE, {Idx(graph, size)}, RangeArg{graph.NextId()});
      list.push_back(loop);
      zero(loop);
      list.push_back(Closing(graph, loop));
    }
  }
  if (list.empty()) return linear;
  list.insert(list.end(), linear->src().begin(), linear->src().end());
  return graph.Make(Op::LINEAR, list, linear->arg());
}

UOp* ZeroShared(Graph& graph, UOp* linear) {
  const std::vector<UOp*> shared = BuffersOf(linear, AddrSpace::kLocal);
  std::vector<UOp*> items, list;
  for (UOp* uop : Toposort(linear)) {
    if (uop->op() == Op::SPECIAL && absl::StartsWith(uop->arg_as<TextArg>().text, "l")) items.push_back(uop);
  }
  if (shared.empty()) return linear;
  std::sort(items.begin(), items.end(),
            [](const UOp* a, const UOp* b) { return a->arg_as<TextArg>().text < b->arg_as<TextArg>().text; });
  UOp* item = Idx(graph, 0);
  int64_t count = 1;
  for (UOp* special : items) {
    const int64_t bound = special->src(0)->const_int();  // program_spec.h: a CONST, and few
    item = item->IsConst() ? special : Add(graph, Mul(graph, item, Idx(graph, bound)), special);
    count *= bound;
  }
  for (UOp* buffer : shared) {
    const int64_t size = NumElements(buffer->shape());
    const int64_t iterations = (size + count - 1) / count;
    UOp* iteration =
        iterations == 1 ? nullptr : graph.Make(Op::RANGE, {Idx(graph, iterations)}, RangeArg{graph.NextId()});
    UOp* place = iteration == nullptr ? item : Add(graph, Mul(graph, iteration, Idx(graph, count)), item);
    UOp* pointer = graph.Make(Op::INDEX, {buffer, place});
    UOp* inside = Lt(graph, place, Idx(graph, size));
    UOp* store = graph.Make(Op::STORE, {pointer, ConstNumber(graph, buffer->dtype(), 0), inside});
    if (iteration != nullptr) list.push_back(iteration);
    list.push_back(store);
    if (iteration != nullptr) list.push_back(Closing(graph, iteration));
  }
  list.push_back(graph.Make(Op::BARRIER, {}));
  list.insert(list.end(), linear->src().begin(), linear->src().end());
  return graph.Make(Op::LINEAR, list, linear->arg());
}

}  // namespace kiln::compiler
