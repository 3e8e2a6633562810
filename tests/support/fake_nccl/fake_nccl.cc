// NCCL's entry points on the cards of a fake: both fakes of the vendors' libraries have them, so
// that one file stands for libnccl.so.2 or librccl.so.1, too.
//
// As the library does, a collective begins on each stream when that has come so far, and none of it
// is done before all have. Besides what every fake has, "set" knows: hang (1: collectives are
// never done), async (what ncclCommGetAsyncError finds).
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_gpu/calls.h"

namespace kiln::testing::fake_gpu {

namespace {

constexpr int kInvalidArgument = 4, kInvalidUsage = 5;

struct Team;
struct Communicator {
  std::shared_ptr<Team> team;
  int rank = 0;
  int device = 0;
};
struct Team {
  std::vector<Communicator*> ranks;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
};

// What one rank asked for.
struct Asked {
  std::string what;
  Communicator* by = nullptr;
  void* stream = nullptr;
  const void* from = nullptr;
  void* to = nullptr;
  size_t count = 0;
  int type = 0, op = 0, root = 0;  // of Send and Recv, the peer
};

std::set<Communicator*>& All() {
  static auto* const all = new std::set<Communicator*>();
  return *all;
}
thread_local int depth = 0;
thread_local std::vector<Asked> asked;

size_t BytesOf(int type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kBytes[type];
}

template <typename T>
void Reduce(int op, char* into, const char* from, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, into + i * sizeof(T), sizeof(T));
    std::memcpy(&b, from + i * sizeof(T), sizeof(T));
    const T reduced = static_cast<T>(op == 0 ? a + b : op == 1 ? a * b : a > b ? a : b);
    std::memcpy(into + i * sizeof(T), &reduced, sizeof(T));
  }
}

// False for half floats, which the fake does not compute.
bool ReduceAny(int type, int op, char* into, const char* from, size_t count) {
  const bool max = op == 2;  // elsewhere, integers wrap
  switch (type) {
    case 0: Reduce<int8_t>(op, into, from, count); return true;
    case 1: Reduce<uint8_t>(op, into, from, count); return true;
    case 2: max ? Reduce<int32_t>(op, into, from, count) : Reduce<uint32_t>(op, into, from, count); return true;
    case 3: Reduce<uint32_t>(op, into, from, count); return true;
    case 4: max ? Reduce<int64_t>(op, into, from, count) : Reduce<uint64_t>(op, into, from, count); return true;
    case 5: Reduce<uint64_t>(op, into, from, count); return true;
    case 7: Reduce<float>(op, into, from, count); return true;
    case 8: Reduce<double>(op, into, from, count); return true;
    default: return false;
  }
}

// The one collective that all ranks asked for, with the memory of all at hand.
int Compute(const std::vector<Asked>& all) {
  const Asked& first = all[0];
  const size_t bytes = first.count * BytesOf(first.type);
  if (first.what == "ncclBroadcast") {
    std::string sent;
    for (const Asked& one : all) {
      if (one.by->rank == first.root) sent.assign(static_cast<const char*>(one.from), bytes);
    }
    for (const Asked& one : all) std::memcpy(one.to, sent.data(), bytes);
    return kSuccess;
  }
  std::string total(static_cast<const char*>(first.from), bytes);
  for (size_t i = 1; i < all.size(); ++i) {
    if (!ReduceAny(first.type, first.op, total.data(), static_cast<const char*>(all[i].from), first.count)) {
      return kLaunchFailed;
    }
  }
  for (const Asked& one : all) {
    if (first.what == "ncclAllReduce" || one.by->rank == first.root) std::memcpy(one.to, total.data(), bytes);
  }
  return kSuccess;
}

// All that was asked for in a group: the Nth collective of each rank belongs to that of the others,
// a Send to its Recv.
int Begin(std::vector<Asked> group) {
  std::map<std::pair<Team*, size_t>, std::vector<Asked>> collectives;
  std::map<Communicator*, size_t> numbers;
  std::vector<std::vector<Asked>> pairs;
  for (const Asked& one : group) {
    if (one.what == "ncclSend" || one.what == "ncclRecv") {
      if (one.what == "ncclRecv") continue;
      Communicator* const peer = one.by->team->ranks[static_cast<size_t>(one.root)];
      bool found = false;
      for (const Asked& other : group) {
        if (other.what != "ncclRecv" || other.by != peer || other.root != one.by->rank) continue;
        if (other.count != one.count || other.type != one.type) return kInvalidArgument;
        pairs.push_back({one, other});
        found = true;
      }
      if (!found) return kInvalidUsage;
      continue;
    }
    collectives[{one.by->team.get(), numbers[one.by]++}].push_back(one);
  }
  for (const auto& [key, all] : collectives) {
    // The library would wait for the others for ever.
    if (all.size() != key.first->ranks.size()) return kInvalidUsage;
    std::vector<void*> streams;
    for (const Asked& one : all) {
      const Asked& first = all[0];
      if (one.what != first.what || one.count != first.count || one.type != first.type || one.root != first.root ||
          one.op != first.op) {
        return kInvalidArgument;
      }
      streams.push_back(one.stream);
    }
    TheWorld().Together(streams, key.first->aborted, [all] { return Compute(all); });
  }
  for (const auto& pair : pairs) {
    TheWorld().Together({pair[0].stream, pair[1].stream}, pair[0].by->team->aborted, [pair] {
      std::memcpy(pair[1].to, pair[0].from, pair[0].count * BytesOf(pair[0].type));
      return kSuccess;
    });
  }
  return kSuccess;
}

int Ask(Asked one) {
  if (All().count(one.by) == 0) return kInvalidArgument;
  if (one.type < 0 || one.type > 9 || one.op < 0 || one.op > 2) return kInvalidArgument;
  asked.push_back(std::move(one));
  if (depth != 0) return kSuccess;
  return Begin(std::exchange(asked, {}));
}

int End(void* communicator, bool abort) {
  auto* const known = static_cast<Communicator*>(communicator);
  if (All().erase(known) == 0) return kInvalidArgument;
  if (abort) *known->team->aborted = true;
  TheWorld().HoldCommunicators(-1);
  delete known;
  return kSuccess;
}

}  // namespace
}  // namespace kiln::testing::fake_gpu

using namespace kiln::testing::fake_gpu;

FAKE(ncclGetVersion)(int* version) {
  ENTER("ncclGetVersion", -1);
  *version = 22809;
  return kSuccess;
}
EXPORT const char* ncclGetErrorString(int code) {
  switch (code) {
    case 1: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case 2: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case 4: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case 5: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case 6: return "remote process exited or there was a network error";
    default: return "unknown result code";
  }
}
EXPORT const char* ncclGetLastError(void*) { return "the last that it warned of"; }
FAKE(ncclCommInitAll)(void** communicators, int count, const int* devices) {
  ENTER("ncclCommInitAll", -1, std::to_string(count));
  auto team = std::make_shared<Team>();
  for (int rank = 0; rank < count; ++rank) {
    auto* const made = new Communicator{team, rank, devices[rank]};
    team->ranks.push_back(made);
    All().insert(made);
    communicators[rank] = made;
    TheWorld().HoldCommunicators(1);
  }
  return kSuccess;
}
FAKE(ncclCommDestroy)(void* communicator) {
  const Call call("ncclCommDestroy", -1);
  const int code = End(communicator, false);
  return call.Anyway(code);
}
FAKE(ncclCommAbort)(void* communicator) {
  const Call call("ncclCommAbort", -1);
  const int code = End(communicator, true);
  return call.Anyway(code);
}
FAKE(ncclCommGetAsyncError)(void*, int* code) {
  ENTER("ncclCommGetAsyncError", -1);
  *code = static_cast<int>(TheWorld().setting("async"));
  return kSuccess;
}
FAKE(ncclGroupStart)() {
  ENTER("ncclGroupStart", -1);
  if (depth++ == 0) asked.clear();
  return kSuccess;
}
FAKE(ncclGroupEnd)() {
  const Call call("ncclGroupEnd", -1);
  if (depth == 0) return kInvalidUsage;
  if (--depth != 0) return call.code();
  std::vector<Asked> group = std::exchange(asked, {});
  return call.code() != kSuccess ? call.code() : Begin(std::move(group));
}
FAKE(ncclAllReduce)(const void* from, void* to, size_t count, int type, int op, void* by, void* stream) {
  ENTER("ncclAllReduce", -1, std::to_string(count));
  return Ask({"ncclAllReduce", static_cast<Communicator*>(by), stream, from, to, count, type, op, 0});
}
FAKE(ncclBroadcast)(const void* from, void* to, size_t count, int type, int root, void* by, void* stream) {
  ENTER("ncclBroadcast", -1, std::to_string(count));
  return Ask({"ncclBroadcast", static_cast<Communicator*>(by), stream, from, to, count, type, 0, root});
}
FAKE(ncclReduce)(const void* from, void* to, size_t count, int type, int op, int root, void* by, void* stream) {
  ENTER("ncclReduce", -1, std::to_string(count));
  return Ask({"ncclReduce", static_cast<Communicator*>(by), stream, from, to, count, type, op, root});
}
FAKE(ncclSend)(const void* from, size_t count, int type, int peer, void* by, void* stream) {
  ENTER("ncclSend", -1, std::to_string(count));
  return Ask({"ncclSend", static_cast<Communicator*>(by), stream, from, nullptr, count, type, 0, peer});
}
FAKE(ncclRecv)(void* to, size_t count, int type, int peer, void* by, void* stream) {
  ENTER("ncclRecv", -1, std::to_string(count));
  return Ask({"ncclRecv", static_cast<Communicator*>(by), stream, nullptr, to, count, type, 0, peer});
}
