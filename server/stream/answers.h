// The answers of a stream: those the connection has yet to take and, for a client that
// may come back, those it has not said to have.
#ifndef KILN_SERVER_STREAM_ANSWERS_H_
#define KILN_SERVER_STREAM_ANSWERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "server/stream/command.h"

namespace kiln::server {

// Not for several threads.
class Answers {
 public:
  // `keep`: taken answers are kept until they are acknowledged, or are more than
  // `max_bytes`.
  Answers(bool keep, uint64_t max_bytes) : keep_(keep), max_bytes_(max_bytes) {}

  // From now on none is kept.
  void Close() {
    closed_ = true;
    answers_.clear();
    taken_ = 0;
    taken_bytes_ = untaken_bytes_ = 0;
  }

  void Add(AnswerPtr answer) {
    if (closed_) return;
    untaken_bytes_ += answer->bytes();
    answers_.push_back(std::move(answer));
  }

  // The next that has not been taken; null if there is none.
  AnswerPtr Take() {
    if (taken_ == answers_.size()) return nullptr;
    AnswerPtr answer = answers_[taken_];
    untaken_bytes_ -= answer->bytes();
    if (!keep_) {
      answers_.pop_front();
      return answer;
    }
    ++taken_;
    taken_bytes_ += answer->bytes();
    while (taken_bytes_ > max_bytes_) {
      lost_ = answers_.front()->message.command_id();
      Drop();
    }
    return answer;
  }

  // The client has the answers of all commands up to this one.
  void Acknowledge(uint64_t command_id) {
    while (taken_ > 0 && answers_.front()->message.command_id() <= command_id) Drop();
  }

  // Those that were kept are to be taken once more.
  void Rewind() {
    taken_ = 0;
    untaken_bytes_ += std::exchange(taken_bytes_, 0);
  }

  bool empty() const { return taken_ == answers_.size(); }
  // Those not taken.
  uint64_t bytes() const { return untaken_bytes_; }
  // Up to this command's, not all were kept.
  uint64_t lost() const { return lost_; }

 private:
  // The oldest, which has been taken.
  void Drop() {
    taken_bytes_ -= answers_.front()->bytes();
    answers_.pop_front();
    --taken_;
  }

  const bool keep_;
  const uint64_t max_bytes_;
  bool closed_ = false;
  std::deque<AnswerPtr> answers_;
  size_t taken_ = 0;
  uint64_t taken_bytes_ = 0;
  uint64_t untaken_bytes_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_STREAM_ANSWERS_H_
