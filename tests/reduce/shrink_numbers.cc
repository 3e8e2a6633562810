// Smaller numbers. A size stands in many places at once: in the shapes of several
// parameters, in a RESHAPE as a factor, in a loop's bound. So first all numbers that
// are alike change together, with their multiples and without, and only then one by
// one.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/float_bits.h"
#include "tests/reduce/reductions.h"

namespace kiln::testing {
namespace {

bool IsWhole(const v1::UOp& node) { return node.op() == v1::CONST && node.constant().value_case() == v1::ConstArg::kI; }

// The greatest step down from `from` that `take` (of a smaller number, not below 0)
// accepts, again and again.
int64_t Lower(int64_t from, const std::function<bool(int64_t)>& take) {
  if (from < 0) return from;
  for (int64_t step = from; step > 0;) {
    if (step <= from && take(from - step)) {
      from -= step;
    } else {
      step /= 2;
    }
  }
  return from;
}

void LowerAlike(Candidates& candidates) {
  std::set<int64_t, std::greater<>> values;
  for (const v1::UOp& node : candidates.graph().nodes()) {
    if (IsWhole(node) && node.constant().i() > 0) values.insert(node.constant().i());
  }
  for (int64_t value : values) {
    for (bool multiples : {true, false}) {
      int64_t now = value;
      Lower(value, [&](int64_t lower) {
        if (lower == 0) return false;
        v1::Graph changed = candidates.graph();
        for (v1::UOp& node : *changed.mutable_nodes()) {
          if (!IsWhole(node)) continue;
          const int64_t number = node.constant().i();
          if (number == now || (multiples && number > 0 && number % now == 0))
            node.mutable_constant()->set_i(number / now * lower);
        }
        const bool taken = candidates.Try(changed) || candidates.Try(Merged(changed));
        if (taken) now = lower;
        return taken;
      });
    }
  }
}

// `change` alters node i of the current graph, or says that there is nothing to do.
bool TryChange(Candidates& candidates, int i, const std::function<bool(v1::UOp&)>& change) {
  if (i >= candidates.nodes()) return false;
  v1::Graph changed = candidates.graph();
  return change(*changed.mutable_nodes(i)) && candidates.Try(changed);
}

void LowerOne(Candidates& candidates, int i) {
  const v1::UOp node = candidates.graph().nodes(i);
  if (IsWhole(node)) {
    if (node.constant().i() < 0) {
      TryChange(candidates, i, [&](v1::UOp& now) {
        now.mutable_constant()->set_i(node.constant().i() == INT64_MIN ? 0 : -node.constant().i());
        return true;
      });
    }
    Lower(candidates.graph().nodes(i).constant().i(), [&](int64_t lower) {
      return TryChange(candidates, i, [&](v1::UOp& now) {
        now.mutable_constant()->set_i(lower);
        return true;
      });
    });
    return;
  }
  if (!node.has_constant()) return;
  for (int plain : {0, 1}) {
    const bool taken = TryChange(candidates, i, [&](v1::UOp& now) {
      v1::ConstArg& constant = *now.mutable_constant();
      switch (constant.value_case()) {
        case v1::ConstArg::kB: constant.set_b(plain != 0); return true;
        case v1::ConstArg::kU: constant.set_u(static_cast<uint64_t>(plain)); return true;
        case v1::ConstArg::kF:
        case v1::ConstArg::kBits: constant.set_bits(SignedToFloatBits(constant.dtype(), plain)); return true;
        case v1::ConstArg::kDecimal: constant.set_i(plain); return true;
        default: return false;
      }
    });
    if (taken) return;
  }
}

void ShortenData(Candidates& candidates, int i) {
  if (!candidates.graph().nodes(i).has_data()) return;
  const auto bytes = static_cast<int64_t>(candidates.graph().nodes(i).data().size());
  Lower(bytes, [&](int64_t fewer) {
    return TryChange(candidates, i, [&](v1::UOp& now) {
      now.mutable_data()->resize(static_cast<size_t>(fewer));
      return true;
    });
  });
}

// Slots 0, 1, 2, ... in the order of the old ones.
void CloseGaps(Candidates& candidates) {
  v1::Graph changed = candidates.graph();
  std::map<uint32_t, uint32_t> slots;
  const auto counts = [](const v1::UOp& node) {
    return node.has_buffer() &&
           (node.buffer().addrspace() == v1::ADDRSPACE_UNSPECIFIED || node.buffer().addrspace() == v1::GLOBAL);
  };
  for (const v1::UOp& node : changed.nodes()) {
    if (counts(node)) slots[node.buffer().slot()] = 0;
  }
  uint32_t next = 0;
  for (auto& [slot, now] : slots) now = next++;
  for (v1::UOp& node : *changed.mutable_nodes()) {
    if (counts(node)) node.mutable_buffer()->set_slot(slots[node.buffer().slot()]);
  }
  candidates.Try(changed);
}

}  // namespace

void ShrinkNumbers(Candidates& candidates) {
  LowerAlike(candidates);
  for (int i = 0; i < candidates.nodes(); ++i) {
    LowerOne(candidates, i);
    ShortenData(candidates, i);
  }
  candidates.Try(Merged(candidates.graph()));
  CloseGaps(candidates);
}

}  // namespace kiln::testing
