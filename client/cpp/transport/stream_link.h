// The way of a stream's commands to the server.
//
// It numbers commands, keeps each until an answer confirms it, and when the connection is
// lost sends what is kept once more on the next; the server runs each number once
// (kiln/v1/kernel_service.proto). The same when the caller's token counts no more and the
// token's file has another. Else it ends, as it does with its session, or when the server
// has not been there for as long as a lease.
#ifndef KILN_CLIENT_CPP_TRANSPORT_STREAM_LINK_H_
#define KILN_CLIENT_CPP_TRANSPORT_STREAM_LINK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/transport/connection.h"
#include "client/cpp/transport/session.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::client {

// Safe from any thread.
class StreamLink {
 public:
  struct Limits {
    uint64_t commands = 1024;
    uint64_t bytes = 16 << 20;
    absl::Duration timeout;  // how long it looks for a server that is gone
  };
  // Called once, from a thread of the link's, with the last message of an answer, whose
  // data is that of all its messages; or with why there is none. Must not send.
  using Answered = std::function<void(absl::StatusOr<v1::SubmitResponse>)>;

  // A stream of the session that `commands` names, whose numbers go on from there.
  StreamLink(std::shared_ptr<Connection> connection, Session::Commands commands, Limits limits);
  ~StreamLink();
  StreamLink(const StreamLink&) = delete;
  StreamLink& operator=(const StreamLink&) = delete;

  // Waits only while as much is unconfirmed as the limits say. Without `answered`, no caller
  // waits for the answer: a failure is kept for TakeFailure. When the link has ended,
  // nothing is sent, and `answered` hears why.
  void Send(v1::SubmitRequest request, Answered answered = nullptr);

  // The first failure of a command that no caller waits for, once; those after it are
  // forgotten. Why the link has ended, if it has.
  absl::Status TakeFailure();

  // OK, or why the link has ended.
  absl::Status status() const;

  // Ends the link; waits until all has been answered, but not for a server that is gone. Twice is once.
  void Close();
  // For the next link of the session; after Close.
  Session::Commands Leave();

 private:
  struct Call;
  using Kept = std::shared_ptr<const v1::SubmitRequest>;
  struct Asked {
    Answered answered;
    std::string data;
  };

  void ReadOn();
  void WriteOn();
  std::shared_ptr<Call> Connect();
  // Whether a call ended for a token that counts no more, in place of which there is another by now.
  bool IsKnownAnew(const absl::Status& status, const Call& call) const;
  // Whether the server is there again, before `deadline` and the link's own end.
  bool WaitForServer(absl::Time deadline);
  // INTERNAL for an answer that cannot be.
  absl::Status Take(v1::SubmitResponse response);
  // Answers up to this one are not all kept by the server.
  absl::Status GiveUp(uint64_t lost);
  // All up to this command have ended.
  void Confirm(uint64_t command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ConfirmSent();
  void End(const absl::Status& why);
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !ended_.ok() || (kept_.size() < limits_.commands && kept_bytes_ < limits_.bytes);
  }
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return done_ || (call_ != nullptr && !broken_ && (unsent_ < kept_.size() || closing_));
  }

  const std::shared_ptr<Connection> connection_;
  const std::string token_;
  const Limits limits_;

  mutable absl::Mutex mutex_;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more goes out on it
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;  // no call is waited for any more
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;  // the last command's number
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;  // all answers up to this one's have come
  // Not confirmed, in order; from the one at unsent_ on, not sent on this connection.
  std::deque<Kept> kept_ ABSL_GUARDED_BY(mutex_);
  size_t unsent_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Since an answer was last asked for.
  uint64_t unasked_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t unasked_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Asked> asked_ ABSL_GUARDED_BY(mutex_);

  std::thread reader_;
  std::thread writer_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_STREAM_LINK_H_
