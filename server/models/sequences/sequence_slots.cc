// Tested by sequence_slots_test.cc.
#include "server/models/sequences/sequence_slots.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "server/engine/memory/over_limit.h"

namespace kiln::server {
namespace {

// Other sequences end when they do.
constexpr uint32_t kFullMillis = 1000;
// How long a run goes on is not known; most are shorter.
constexpr uint32_t kBusyMillis = 100;
constexpr char kField[] = "parameters.sequence_id";

absl::Status ComeAgain(const absl::Status& refused, uint32_t millis) {
  return WithDetail(refused, [millis](v1::ErrorDetail& detail) { detail.set_retry_after_ms(millis); });
}

}  // namespace

SequenceSlots::SequenceSlots(size_t most, size_t rows, absl::Duration idle) : most_(most), idle_(idle) {
  for (size_t slot = most + rows; slot-- > 0;) free_.push_back(static_cast<int32_t>(slot));
}

absl::Status SequenceSlots::Begin(const SequenceAsk& ask, absl::Time now) {
  EndIdle(now);
  const auto found = sequences_.find(ask.id);
  if (found != sequences_.end()) {
    // Also of a client that has given the one before up, and sends it again while its run goes on with others.
    if (found->second.busy)
      return ComeAgain(
          OverLimit("requests of a sequence", 1, 2,
                    absl::StrCat("sequence ", absl::CHexEscape(ask.id),
                                 " has a request under way, and each begins where the one before ended; send it when "
                                 "that has been answered, or, if you have given it up, again in a moment"),
                    kField),
          kBusyMillis);
    quiet_.erase({found->second.last, ask.id});
    found->second.busy = true;
    return absl::OkStatus();
  }
  if (!ask.start) {
    v1::ErrorDetail detail;
    detail.set_code(v1::UNKNOWN_HANDLE);
    detail.set_field(kField);
    return MakeError(
        std::move(detail),
        absl::StrCat("sequence ", absl::CHexEscape(ask.id), " is not there: it has ended, or nobody asked for ",
                     absl::FormatDuration(idle_), ", or the model was loaded anew; begin one with sequence_start"));
  }
  if (sequences_.size() >= most_) {
    return ComeAgain(OverLimit("sequences", most_, sequences_.size() + 1,
                               absl::StrCat("there are ", sequences_.size(), " sequences of this model, and at most ",
                                            most_, " are kept; end one with sequence_end"),
                               "parameters.sequence_start"),
                     kFullMillis);
  }
  sequences_[ask.id] = {kNone, true, now};
  return absl::OkStatus();
}

SequenceSlots::Move SequenceSlots::Take(const SequenceAsk& ask) {
  KILN_CHECK(!free_.empty());
  const Move move{ask.start ? kNone : sequences_[ask.id].slot, free_.back()};
  free_.pop_back();
  return move;
}

void SequenceSlots::GiveBack(const Move& move) { free_.push_back(move.to); }

void SequenceSlots::MakeQuiet(const std::string& id, Sequence& sequence, absl::Time now) {
  sequence.busy = false;
  sequence.last = now;
  quiet_.emplace(now, id);
}

void SequenceSlots::Succeed(const SequenceAsk& ask, const Move& move, absl::Time now) {
  const auto found = sequences_.find(ask.id);
  Sequence& sequence = found->second;
  if (sequence.slot != kNone) free_.push_back(sequence.slot);
  sequence.slot = move.to;
  if (!ask.end) return MakeQuiet(ask.id, sequence, now);
  free_.push_back(move.to);
  sequences_.erase(found);
}

void SequenceSlots::Fail(const SequenceAsk& ask, absl::Time now) {
  const auto found = sequences_.find(ask.id);
  if (found->second.slot != kNone) return MakeQuiet(ask.id, found->second, now);
  sequences_.erase(found);  // it never began
}

void SequenceSlots::EndIdle(absl::Time now) {
  while (!quiet_.empty() && now - quiet_.begin()->first >= idle_) {
    const auto ended = sequences_.find(quiet_.begin()->second);
    free_.push_back(ended->second.slot);
    sequences_.erase(ended);
    quiet_.erase(quiet_.begin());
  }
}

}  // namespace kiln::server
