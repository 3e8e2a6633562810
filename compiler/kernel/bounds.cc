#include "compiler/kernel/bounds.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

using Known = absl::flat_hash_map<const UOp*, Bounds>;

void Narrow(Known& known, const UOp* uop, __int128 min, __int128 max) {
  Bounds& bounds = known.try_emplace(uop, uop->bounds()).first->second;
  bounds.min = std::max(bounds.min, min);
  bounds.max = std::min(bounds.max, max);
}

// What a true gate says about the nodes it compares with constants.
Known KnownFrom(const UOp* gate) {
  constexpr __int128 kFar = __int128{1} << 70;
  Known known;
  std::vector<const UOp*> stack = {gate};
  while (!stack.empty()) {
    const UOp* uop = stack.back();
    stack.pop_back();
    const bool negated = uop->op() == Op::CMPNE && uop->src(1)->IsConstInt(1) && uop->src(0)->dtype() == DType::kBool;
    const UOp* less = negated ? uop->src(0) : uop;
    if (uop->op() == Op::AND) {
      stack.push_back(uop->src(0));
      stack.push_back(uop->src(1));
    } else if (less->op() == Op::CMPLT && less->src(1)->IsConst() && less->src(0)->dtype() == kIndexType) {
      const __int128 limit = less->src(1)->const_int();
      if (negated) {
        Narrow(known, less->src(0), limit, kFar);
      } else {
        Narrow(known, less->src(0), -kFar, limit - 1);
      }
    } else if (less->op() == Op::CMPLT && less->src(0)->IsConst() && less->src(1)->dtype() == kIndexType) {
      const __int128 limit = less->src(0)->const_int();
      if (negated) {
        Narrow(known, less->src(1), -kFar, limit);
      } else {
        Narrow(known, less->src(1), limit + 1, kFar);
      }
    }
  }
  return known;
}

// The interval of `index` under what is known of its parts.
Bounds NarrowedBounds(UOp* index, const Known& known) {
  absl::flat_hash_map<const UOp*, Bounds> bounds;
  for (UOp* uop : Toposort(index)) {
    Bounds own = uop->bounds();
    if ((uop->op() == Op::ADD || uop->op() == Op::MUL) && uop->dtype() == kIndexType) {
      const Bounds& a = bounds[uop->src(0)];
      const Bounds& b = bounds[uop->src(1)];
      constexpr __int128 kHuge = __int128{1} << 62;
      const bool moderate = a.min > -kHuge && a.max < kHuge && b.min > -kHuge && b.max < kHuge;
      if (moderate && uop->op() == Op::ADD) {
        own = {std::max(own.min, a.min + b.min), std::min(own.max, a.max + b.max), true};
      } else if (moderate) {
        const __int128 corners[] = {a.min * b.min, a.min * b.max, a.max * b.min, a.max * b.max};
        const auto [low, high] = std::minmax_element(corners, corners + 4);
        if (*low >= BoundsOf(kIndexType).min && *high <= BoundsOf(kIndexType).max) {
          own = {std::max(own.min, *low), std::min(own.max, *high), true};
        }
      }
    }
    if (auto found = known.find(uop); found != known.end()) {
      own.min = std::max(own.min, found->second.min);
      own.max = std::min(own.max, found->second.max);
    }
    bounds[uop] = own;
  }
  return bounds[index];
}

}  // namespace

absl::StatusOr<UOp*> ProveBounds(Graph& graph, UOp* sink, bool strict) {
  // In order, so that an index that is itself loaded is guarded first.
  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : Toposort(sink)) {
    std::vector<UOp*> src;
    bool changed = false;
    for (UOp* source : uop->src()) {
      src.push_back(done[source]);
      changed |= src.back() != source;
    }
    const bool access = (uop->op() == Op::LOAD || uop->op() == Op::STORE) && src[0]->op() == Op::INDEX;
    if (access) {
      const int64_t size = src[0]->src(0)->shape()[0];
      UOp* index = src[0]->src(1);
      UOp* gate = src.size() > 2 ? src[2] : nullptr;
      const Bounds bounds = gate == nullptr ? index->bounds() : NarrowedBounds(index, KnownFrom(gate));
      if (bounds.min < 0 || bounds.max >= size) {
        if (strict) {
          return MakeError(v1::OUT_OF_BOUNDS, absl::StrCat("an index of a buffer of ", size, " elements cannot be proved in range, and `strict` forbids a guard"));
        }
        UOp* inside = And(graph, Not(graph, Lt(graph, index, Idx(graph, 0))), Lt(graph, index, Idx(graph, size)));
        gate = gate == nullptr ? inside : And(graph, gate, inside);
        if (src.size() < 2) src.push_back(ConstNumber(graph, uop->dtype(), 0));
        src.resize(2);
        src.push_back(gate);
        changed = true;
      }
    }
    done[uop] = changed ? graph.Make(uop->op(), src, uop->arg()) : uop;
  }
  return done[sink];
}

}  // namespace kiln::compiler
