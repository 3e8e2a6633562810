#include "compiler/shard/levels.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "compiler/schedule/opaque_calls.h"

namespace kiln::compiler {
namespace {

bool Stores(const UOp* uop) { return uop->op() == Op::STORE || uop->op() == Op::CALL; }

bool IsPoison(const UOp* uop) {
  return uop->IsInvalid() || (uop->op() == Op::PAD && std::holds_alternative<std::monostate>(uop->arg()));
}

// Whether Invalid ends here.
bool Cures(const UOp* uop) { return uop->op() == Op::LOAD || uop->op() == Op::REDUCE || Stores(uop); }

bool Computes(const UOp* uop) { return IsElementwise(uop->op()) || uop->op() == Op::REDUCE || uop->op() == Op::LOAD; }

}  // namespace

Levels::Levels(const Shares& shares) : shares_(shares) {
  for (const Transfer& transfer : shares.transfers) transfer_of_[transfer.target] = &transfer;
  for (const Shares::Parameter& parameter : shares.parameters) {
    for (size_t i = 0; i < parameter.stores.size(); ++i) state_after_[{parameter.share, parameter.stores[i]}] = i + 1;
  }
  Order();
  Place();
}

void Levels::Order() {
  std::vector<std::pair<UOp*, size_t>> stack;
  const auto visit = [&](UOp* root) {
    if (infos_.contains(root)) return;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [uop, next] = stack.back();
      if (next == 0 && !infos_.try_emplace(uop).second) {
        stack.pop_back();
        continue;
      }
      const auto transfer = transfer_of_.find(uop);
      const bool is_target = transfer != transfer_of_.end();
      if (next < (is_target ? 1 : uop->src().size())) {
        UOp* source = is_target ? transfer->second->source : uop->src(next);
        ++next;
        if (!infos_.contains(source)) stack.emplace_back(source, 0);
        continue;
      }
      order_.push_back(uop);
      stack.pop_back();
    }
  };
  for (UOp* store : shares_.stores) visit(store);
  for (const Shares::Result& result : shares_.results) {
    if (!result.aliases.has_value()) visit(result.value);
  }
}

void Levels::Place() {
  for (UOp* uop : order_) {
    Info& info = infos_[uop];
    if (const auto leaf = shares_.devices.find(uop); leaf != shares_.devices.end()) info.devices = &leaf->second;
    info.poison = IsPoison(uop);
    for (UOp* source : uop->src()) {
      if (transfer_of_.contains(uop)) break;
      const Info& from = infos_[source];
      if (info.devices == nullptr) info.devices = from.devices;
      info.poison |= from.poison;
    }
    info.poison &= !Cures(uop);
    info.computed = Computes(uop) && info.devices != nullptr && !info.poison;
    FindNames(uop, info);
  }
}

// Handed down from source to user: a chain of a client's is as long as it likes, and
// walking it for each of its links would take its square.
void Levels::FindNames(UOp* uop, Info& info) {
  if (uop->op() == Op::PARAM) {
    info.storage = uop;
    info.memory = uop->IsVariable() ? nullptr : uop;
    return;
  }
  if (info.computed) info.memory = uop;
  if (uop->src().empty()) return;
  const Info& from = infos_[uop->src(0)];
  if (uop->op() == Op::RESHAPE || uop->op() == Op::AFTER) info.memory = from.memory;
  info.storage = from.storage;
  info.state = from.state;
  if (uop->op() == Op::AFTER) info.state = std::max(info.state, state_after_.at({info.storage, uop->src(1)}));
}

void Levels::FindLevels() {
  for (UOp* uop : order_) {
    Info& info = infos_[uop];
    if (const auto transfer = transfer_of_.find(uop); transfer != transfer_of_.end()) {
      info.level = infos_[transfer->second->source].level + 1;
      continue;
    }
    info.level = info.floor;
    for (UOp* source : uop->src()) info.level = std::max(info.level, infos_[source].level);
  }
}

void Levels::Read(UOp* uop, int level) {
  Info& info = infos_[uop];
  if (!info.computed) {
    info.last = std::max(info.last, level);
  } else if (level > info.level && !std::exchange(info.crosses, true)) {
    crossing_.push_back(uop);
  }
}

void Levels::FindReads() {
  crossing_.clear();
  for (auto& [uop, info] : infos_) info.last = info.address = -1, info.crosses = false;
  // Transfers come behind the segments of their level, which results are made in.
  for (const Transfer& transfer : shares_.transfers) {
    if (!Reaches(transfer.target)) continue;
    const int level = Of(transfer.source);
    UOp* memory = MemoryOf(transfer.source);
    Read(memory != nullptr && IsComputed(memory) ? memory : transfer.source, memory != nullptr ? level + 1 : level);
  }
  for (const Shares::Result& result : shares_.results) {
    if (!result.aliases.has_value()) Read(result.value, Of(result.value));
  }
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    UOp* uop = *it;
    const Info info = infos_[uop];
    if (transfer_of_.contains(uop)) continue;
    const int level = info.computed || Stores(uop) ? info.level : info.last;
    for (size_t i = 0; i < uop->src().size(); ++i) {
      UOp* source = uop->src(i);
      // What an AFTER shows, or a STORE writes, is no read of what was there before.
      const bool place = uop->op() == Op::CALL ? i > 0 && ArgumentKind(uop, i - 1) == 'w'
                                               : i == 0 && (uop->op() == Op::AFTER || uop->op() == Op::STORE);
      if (uop->op() == Op::AFTER && i > 0) continue;
      if (place) {
        infos_[source].address = std::max(infos_[source].address, level);
      } else if (level >= 0) {
        Read(source, level);
      }
      if (info.address < 0) continue;
      if (i == 0) {
        infos_[source].address = std::max(infos_[source].address, info.address);
      } else {
        Read(source, info.address);
      }
    }
  }
}

bool Levels::RaiseFloors() {
  // By storage and state: the last level that reads it.
  absl::flat_hash_map<const UOp*, std::vector<int>> last_read;
  for (const Shares::Parameter& parameter : shares_.parameters) {
    if (parameter.stores.empty() || !Reaches(parameter.share)) continue;
    last_read[parameter.share].assign(parameter.stores.size() + 1, 0);
    last_read[parameter.share][0] = infos_[parameter.share].last;
  }
  for (const UOp* uop : order_) {
    if (uop->op() != Op::AFTER) continue;
    const Info& info = infos_[uop];
    int& last = last_read[info.storage][info.state];
    last = std::max(last, info.last);
  }
  bool raised = false;
  for (const Shares::Parameter& parameter : shares_.parameters) {
    if (parameter.stores.empty() || !Reaches(parameter.share)) continue;
    int floor = 0;
    for (size_t i = 0; i < parameter.stores.size(); ++i) {
      floor = std::max(floor, last_read[parameter.share][i]);
      Info& store = infos_[parameter.stores[i]];
      floor = std::max(floor, store.floor);
      raised |= floor > store.level;
      store.floor = floor;
      floor = std::max(floor, store.level);
    }
  }
  return raised;
}

absl::Status Levels::Settle(const Graph& graph) {
  // A STORE moves behind transfers: if it still moves when it has moved behind all of
  // them, it waits for itself.
  const int max_levels = static_cast<int>(transfer_of_.size()) + 1;
  constexpr int kMaxRounds = 200;
  for (int round = 0;; ++round) {
    FindLevels();
    FindReads();
    if (!RaiseFloors()) return absl::OkStatus();
    for (UOp* store : shares_.stores) {
      if (infos_[store].floor <= max_levels && round < kMaxRounds) continue;
      return graph.Locate(MakeError(v1::UNSUPPORTED_SHARD,
                                    "STORE over a state that is read again behind a COPY of what is stored: read it "
                                    "through a CONTIGUOUS before"),
                          store);
    }
  }
}

}  // namespace kiln::compiler
