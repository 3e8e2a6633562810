// Scripts of collectives, by kind: who sends what to whom.
#include <algorithm>

#include "base/check.h"
#include "runtime/collective/across.h"

namespace kiln::runtime::collective {
namespace {

// Up to so many bytes of the whole tensor, one step is quicker than two.
constexpr uint64_t kOneStepBytes = 16 << 10;
constexpr uint64_t kTreeBytes = 256 << 10;

class Planner {
 public:
  Planner(Kind kind, Way way, uint32_t root, uint64_t count, uint32_t item, const std::vector<Share>& shares)
      : kind_(kind), way_(way), root_(root), count_(count), item_(item), shares_(shares), scripts_(shares.size()) {
    for (uint32_t rank = 0; rank < ranks(); ++rank) scripts_[rank].self = rank;
  }

  std::vector<Script> Plan() {
    switch (kind_) {
      case Kind::kBroadcast: way_ == Way::kTree ? TreeBroadcast() : PartsBroadcast(); break;
      case Kind::kScatter: Scatter(false); break;
      case Kind::kGather: Gather(); break;
      case Kind::kReduce: way_ == Way::kOneStep ? OneStepReduce(root_, root_ + 1) : PartsReduce(); break;
      case Kind::kAllGather: AllGather(false); break;
      case Kind::kReduceScatter: ReduceParts([&](uint32_t rank) { return shares_[rank].output; }); break;
      case Kind::kAllReduce:
        if (way_ == Way::kOneStep) {
          OneStepReduce(0, ranks());
        } else {
          ReduceParts([&](uint32_t rank) { return shares_[rank].output + PartAt(rank); });
          AllGather(true);
        }
        break;
    }
    return std::move(scripts_);
  }

 private:
  uint32_t ranks() const { return static_cast<uint32_t>(shares_.size()); }
  uint64_t total() const { return count_ * item_; }
  uint64_t PartAt(uint32_t rank) const { return PartOf(count_, ranks(), rank).begin * item_; }
  uint64_t PartBytes(uint32_t rank) const { return PartOf(count_, ranks(), rank).elements * item_; }
  // Calls fn(peer) for all but `rank`, beginning with the next, so that not all turn to
  // the same one at once.
  template <typename Fn>
  void ForOthers(uint32_t rank, const Fn& fn) {
    for (uint32_t i = 1; i < ranks(); ++i) fn((rank + i) % ranks());
  }

  void Add(uint32_t rank, ScriptStep step) { scripts_[rank].steps.push_back(std::move(step)); }
  void Send(uint32_t from, uint64_t address, uint32_t to, uint64_t bytes) {
    if (bytes != 0) Add(from, {.kind = ScriptStep::Kind::kSend, .peer = to, .from = address, .bytes = bytes});
  }
  void Receive(uint32_t to, uint64_t address, uint32_t from, uint64_t bytes) {
    if (bytes != 0) Add(to, {.kind = ScriptStep::Kind::kReceive, .peer = from, .to = address, .bytes = bytes});
  }
  void Wait(uint32_t rank) { Add(rank, {.kind = ScriptStep::Kind::kWait}); }
  void Copy(uint32_t rank, uint64_t from, uint64_t to, uint64_t bytes) {
    if (bytes != 0 && from != to) {
      Add(rank, {.kind = ScriptStep::Kind::kCopy, .from = from, .to = to, .bytes = bytes});
    }
  }

  // The root's parts to their ranks; `into_whole`: to where they belong in a whole tensor.
  void Scatter(bool into_whole) {
    const uint64_t source = shares_[root_].input;
    ForOthers(root_, [&](uint32_t peer) { Send(root_, source + PartAt(peer), peer, PartBytes(peer)); });
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      const uint64_t to = shares_[rank].output + (into_whole ? PartAt(rank) : 0);
      if (rank == root_) {
        Copy(rank, source + PartAt(rank), to, PartBytes(rank));
      } else {
        Receive(rank, to, root_, PartBytes(rank));
      }
      Wait(rank);
    }
  }

  void Gather() {
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      const uint64_t to = shares_[root_].output + PartAt(rank);
      if (rank == root_) {
        Copy(rank, shares_[rank].input, to, PartBytes(rank));
      } else {
        Send(rank, shares_[rank].input, root_, PartBytes(rank));
        Receive(root_, to, rank, PartBytes(rank));
      }
    }
  }

  // Everyone's part to all; `in_place`: it is where it belongs in the output.
  void AllGather(bool in_place) {
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      const uint64_t output = shares_[rank].output, mine = in_place ? output + PartAt(rank) : shares_[rank].input;
      ForOthers(rank, [&](uint32_t peer) { Receive(rank, output + PartAt(peer), peer, PartBytes(peer)); });
      ForOthers(rank, [&](uint32_t peer) { Send(rank, mine, peer, PartBytes(rank)); });
      Copy(rank, mine, output + PartAt(rank), PartBytes(rank));
    }
  }

  void PartsBroadcast() {
    Scatter(true);
    // The root has all it needs, and what it sends is its input.
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      const uint64_t output = shares_[rank].output;
      if (rank == root_) Copy(rank, shares_[rank].input, output, total());
      ForOthers(rank, [&](uint32_t peer) {
        if (rank != root_) Receive(rank, output + PartAt(peer), peer, PartBytes(peer));
      });
      ForOthers(rank, [&](uint32_t peer) {
        const uint64_t from = rank == root_ ? shares_[rank].input : output;
        if (peer != root_) Send(rank, from + PartAt(rank), peer, PartBytes(rank));
      });
    }
  }

  // Places are counted from the root; in each round, those who have it double.
  void TreeBroadcast() {
    Copy(root_, shares_[root_].input, shares_[root_].output, total());
    for (uint32_t have = 1; have < ranks(); have *= 2) {
      for (uint32_t place = 0; place < have && place + have < ranks(); ++place) {
        const uint32_t from = (place + root_) % ranks(), to = (place + have + root_) % ranks();
        Send(from, from == root_ ? shares_[from].input : shares_[from].output, to, total());
        Receive(to, shares_[to].output, from, total());
        Wait(to);
      }
    }
  }

  // All inputs, whole, to the ranks [begin, end), each of which combines them.
  void OneStepReduce(uint32_t begin, uint32_t end) {
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      ForOthers(rank, [&](uint32_t peer) {
        if (begin <= peer && peer < end) Send(rank, shares_[rank].input, peer, total());
      });
      if (rank < begin || rank >= end) continue;
      CombineAt(rank, 0, total(), shares_[rank].output);
    }
  }

  // Of [at, at + bytes) of all tensors: fetches those of the others, and combines.
  void CombineAt(uint32_t rank, uint64_t at, uint64_t bytes, uint64_t to) {
    std::vector<uint64_t> inputs(ranks());
    uint64_t slot = shares_[rank].scratch;
    for (uint32_t peer = 0; peer < ranks(); ++peer) {
      if (peer == rank) {
        inputs[peer] = shares_[rank].input + at;
        continue;
      }
      inputs[peer] = slot;
      Receive(rank, slot, peer, bytes);
      slot += bytes;
    }
    Wait(rank);
    if (bytes == 0) return;
    Add(rank, {.kind = ScriptStep::Kind::kReduce, .to = to, .bytes = bytes, .inputs = std::move(inputs)});
  }

  // Everyone's part of all tensors, combined, to `to(rank)`.
  template <typename To>
  void ReduceParts(const To& to) {
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      ForOthers(rank, [&](uint32_t peer) { Send(rank, shares_[rank].input + PartAt(peer), peer, PartBytes(peer)); });
      CombineAt(rank, PartAt(rank), PartBytes(rank), to(rank));
    }
  }

  void PartsReduce() {
    // Behind what the others sent there is room for the part itself.
    const auto mine = [&](uint32_t rank) {
      return rank == root_ ? shares_[rank].output + PartAt(rank)
                           : shares_[rank].scratch + (ranks() - 1) * PartBytes(rank);
    };
    ReduceParts(mine);
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      if (rank == root_) continue;
      Send(rank, mine(rank), root_, PartBytes(rank));
      Receive(root_, shares_[root_].output + PartAt(rank), rank, PartBytes(rank));
    }
  }

  const Kind kind_;
  const Way way_;
  const uint32_t root_;
  const uint64_t count_;
  const uint64_t item_;
  const std::vector<Share>& shares_;
  std::vector<Script> scripts_;
};

}  // namespace

const char* NameOf(Way way) { return way == Way::kOneStep ? "naive" : way == Way::kTree ? "tree" : "all_to_all"; }

Way WayFor(Kind kind, uint32_t ranks, uint64_t bytes) {
  if (kind == Kind::kBroadcast) return bytes <= kTreeBytes || ranks < 3 ? Way::kTree : Way::kParts;
  const bool whole = kind == Kind::kReduce || kind == Kind::kAllReduce;
  return whole && bytes <= kOneStepBytes ? Way::kOneStep : Way::kParts;
}

uint64_t ScratchBytes(Kind kind, Way way, uint32_t ranks, uint32_t root, uint32_t rank, uint64_t count, uint32_t item) {
  if (!Reduces(kind)) return 0;
  const uint64_t others = ranks - 1, part = PartOf(count, ranks, rank).elements * item;
  if (way == Way::kOneStep) return kind == Kind::kReduce && rank != root ? 0 : others * count * item;
  return kind == Kind::kReduce ? (others + 1) * part : others * part;
}

std::vector<Script> PlanScripts(Kind kind, Way way, uint32_t root, uint64_t count, uint32_t item,
                                const std::vector<Share>& shares) {
  return Planner(kind, way, root, count, item, shares).Plan();
}

}  // namespace kiln::runtime::collective
