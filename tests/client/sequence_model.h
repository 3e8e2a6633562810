// What random sequences of calls by the C++ client (sequences.h) expect: memory, and which
// call has poisoned which of it.
//
// The rule is docs/protocol.md's. What a command of a stream that fails would have made or
// written is poisoned with the first cause, and so is what is made from what is poisoned; elements
// that are overwritten by what succeeds are healthy again. Where nothing was made, nothing can
// be overwritten. A call is answered itself, and poisons nothing, unless it was stopped in the
// middle: what it was writing is then poisoned, by a cause that comes before those of all commands.
#ifndef KILN_TESTS_CLIENT_SEQUENCE_MODEL_H_
#define KILN_TESTS_CLIENT_SEQUENCE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cpp/device_buffer.h"
#include "kiln/v1/error.pb.h"

namespace kiln::client {

// Elements of most buffers, and of every parameter and result but a few; all are int32.
inline constexpr int64_t kSize = 8;

using Values = std::vector<int32_t>;
using Codes = std::set<v1::ErrorCode>;

// Of failures: the number of the command, and its code; one of several, where it has several
// faults, or a race decides.
struct Cause {
  uint64_t order = 0;
  Codes codes;
};
using MaybeCause = std::optional<Cause>;

// Of a call that was stopped: whether the server saw the deadline or the client's end first.
inline Cause Stopped() { return {0, {v1::DEADLINE_PASSED, v1::CALL_CANCELLED}}; }

inline MaybeCause Earliest(MaybeCause a, MaybeCause b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() ? a : b;
  return b->order < a->order ? b : a;
}

// What a memory's elements are, and what poisoned each; or that it was not made.
struct Memory {
  Values values;
  std::vector<MaybeCause> causes;
  std::string device;
  bool made = true;
};

// A name for a part of a memory. One that a call made is everybody's, and is freed with
// `owned`; any other is its stream's.
struct Slot {
  v1::BufferRef ref;
  std::shared_ptr<Memory> memory;
  size_t begin = 0, end = 0;
  DeviceBuffer owned;

  size_t size() const { return end - begin; }
  bool everybodys() const { return owned.valid(); }
  Values values() const { return Values(memory->values.begin() + at(begin), memory->values.begin() + at(end)); }
  // The first of what poisons an element of it.
  MaybeCause cause() const {
    MaybeCause first;
    for (size_t i = begin; i < end; ++i) first = Earliest(first, memory->causes[i]);
    return first;
  }
  void MarkPoisoned(const Cause& cause) {
    for (size_t i = begin; i < end; ++i) {
      if (!memory->causes[i].has_value()) memory->causes[i] = cause;
    }
  }
  void Overwrite(const Values& values, size_t from = 0) {
    std::copy(values.begin(), values.end(), memory->values.begin() + at(begin + from));
    std::fill_n(memory->causes.begin() + at(begin + from), values.size(), std::nullopt);
  }
  // Whether they share an element.
  bool Meets(const Slot& other) const { return memory == other.memory && begin < other.end && other.begin < end; }

 private:
  static std::ptrdiff_t at(size_t i) { return static_cast<std::ptrdiff_t>(i); }
};

// Slots are shared: one that is freed may still be an argument of the step under way.
using SlotPtr = std::shared_ptr<Slot>;
using Slots = std::vector<SlotPtr>;

inline SlotPtr NewSlot(const v1::BufferRef& ref, Values values, const std::string& device,
                       const MaybeCause& cause = std::nullopt, bool made = true) {
  auto slot = std::make_shared<Slot>();
  slot->ref = ref;
  slot->end = values.size();
  slot->memory = std::make_shared<Memory>();
  slot->memory->causes.assign(values.size(), cause);
  slot->memory->values = std::move(values);
  slot->memory->device = device;
  slot->memory->made = made;
  return slot;
}

inline MaybeCause First(const Slots& slots) {
  MaybeCause first;
  for (const SlotPtr& slot : slots) first = Earliest(first, slot->cause());
  return first;
}

// What a stream's commands and calls beside it are answered. Each function says "" or what is
// wrong.
class Expectations {
 public:
  // Of the next command, if it has these faults of its own.
  MaybeCause Fault(Codes codes) const {
    return codes.empty() ? MaybeCause() : MaybeCause(Cause{commands_ + 1, std::move(codes)});
  }

  // A command that nobody waits for ends so.
  void Sent(const MaybeCause& cause, const Slots& outputs) {
    ++commands_;
    if (!cause.has_value()) return;
    ++failed;
    if (!untold_.has_value()) untold_ = cause;
    for (const SlotPtr& slot : outputs) slot->MarkPoisoned(*cause);
  }
  // One that is waited for.
  std::string Asked(const MaybeCause& cause, const absl::Status& status) {
    ++commands_;
    failed += cause.has_value();
    return Check(cause, status);
  }
  // A call, of what may be several faults.
  std::string Called(const MaybeCause& met, const MaybeCause& own, const absl::Status& status) {
    MaybeCause either = met.has_value() ? met : own;
    if (met.has_value() && own.has_value()) either->codes.insert(own->codes.begin(), own->codes.end());
    failed += either.has_value();
    return Check(either, status);
  }
  // A fence tells the first failure of a command that nobody waited for; those after it are forgotten.
  std::string Fenced(const absl::Status& status) { return Asked(std::exchange(untold_, std::nullopt), status); }

  int failed = 0;

 private:
  static std::string Check(const MaybeCause& cause, const absl::Status& status) {
    const auto detail = DetailOf(status);
    const v1::ErrorCode code = detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
    if (!cause.has_value() ? status.ok() : !status.ok() && cause->codes.count(code) != 0) return "";
    std::string wanted = "success";
    if (cause.has_value()) wanted = absl::StrCat("a failure of command ", cause->order, ":");
    for (const v1::ErrorCode one : cause.has_value() ? cause->codes : Codes())
      absl::StrAppend(&wanted, " ", v1::ErrorCode_Name(one));
    return absl::StrCat("wanted ", wanted, ", found ", v1::ErrorCode_Name(code), " ", status.ToString());
  }

  uint64_t commands_ = 0;
  MaybeCause untold_;
};

}  // namespace kiln::client

#endif  // KILN_TESTS_CLIENT_SEQUENCE_MODEL_H_
