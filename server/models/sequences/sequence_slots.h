// Which sequences one tenant has of a model, and in which slot of the pools each one's state is.
//
// A run reads a sequence's state in one slot and writes it to another, and only when it has ended well does the
// sequence have that one. So a request that fails has changed nothing, whatever it was that failed and however far the
// run had come; it can be sent again. There are as many slots more than sequences as one run has rows, so that there is
// always one to write to.
//
// No memory is touched here, and nothing is locked: sequencer.h does both, and holds one lock for all tenants
// meanwhile. So nothing here goes through all sequences, of which there may be thousands, whatever comes: those that
// are quiet stand in the order in which they will end.
#ifndef KILN_SERVER_MODELS_SEQUENCES_SEQUENCE_SLOTS_H_
#define KILN_SERVER_MODELS_SEQUENCES_SEQUENCE_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kiln::server {

// What a request says of its sequence.
struct SequenceAsk {
  std::string id;      // a number, or a text in quotes: "7" and "\"7\"" are two
  bool start = false;  // begins anew, whether there is one or not
  bool end = false;    // is its last
};

class SequenceSlots {
 public:
  static constexpr int32_t kNone = -1;

  // At most `most` sequences; `rows` of them in a run.
  SequenceSlots(size_t most, size_t rows, absl::Duration idle);

  // A request comes. From now on the sequence is busy, and has one of the places. OUT_OF_MEMORY with the limit
  // "requests of a sequence", and when to come again, if it is busy already; with the limit "sequences", and the same,
  // if there are as many. UNKNOWN_HANDLE, field "parameters.sequence_id", if there is none and the request does not
  // start it. Ends those that are idle, first.
  absl::Status Begin(const SequenceAsk& ask, absl::Time now);

  // For the run of a request that has begun: where the state is read, kNone for zeros, and where it is written.
  struct Move {
    int32_t from = kNone, to = kNone;
  };
  Move Take(const SequenceAsk& ask);
  // That run was none; there may be another.
  void GiveBack(const Move& move);

  // The request has been answered: well, by a run with this move; or not, and then the sequence is as it was before.
  void Succeed(const SequenceAsk& ask, const Move& move, absl::Time now);
  void Fail(const SequenceAsk& ask, absl::Time now);

  void EndIdle(absl::Time now);
  size_t sequences() const { return sequences_.size(); }
  size_t free_slots() const { return free_.size(); }
  // When the one that is idle longest was last asked for; InfiniteFuture() if all are busy.
  absl::Time oldest() const { return quiet_.empty() ? absl::InfiniteFuture() : quiet_.begin()->first; }

 private:
  struct Sequence {
    int32_t slot = kNone;  // kNone: no request of it has ended well yet
    bool busy = false;
    absl::Time last;  // of one that is not busy: when it was asked for
  };
  void MakeQuiet(const std::string& id, Sequence& sequence, absl::Time now);

  const size_t most_;
  const absl::Duration idle_;
  std::map<std::string, Sequence> sequences_;
  // Those that are not busy, by when they were asked for last.
  std::set<std::pair<absl::Time, std::string>> quiet_;
  std::vector<int32_t> free_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SEQUENCES_SEQUENCE_SLOTS_H_
