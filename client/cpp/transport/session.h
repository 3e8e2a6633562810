// Who owns what a client makes on a server.
//
// A server keeps a buffer until it is freed. A process that is killed frees nothing; so a client may have a session,
// which owns what is made under it. A thread renews its lease: of a client that is gone the server hears no more, and
// frees what the session had. A session that the server does not know any more, since another has taken its place, is
// replaced by a new one; what the first owned is gone with it.
#ifndef KILN_CLIENT_CPP_TRANSPORT_SESSION_H_
#define KILN_CLIENT_CPP_TRANSPORT_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kiln::client {

class Connection;

// The metadata in which a call names its session.
inline constexpr char kSessionHeader[] = "kiln-session-bin";

// Safe from any thread.
class Session {
 public:
  // Where a stream of commands stands, for the next one under the same token: the server passes over commands whose
  // numbers it had.
  struct Commands {
    std::string token;
    uint64_t last = 0;     // the number of the last command
    absl::Status failure;  // of one that nobody was told of
  };

  // The connection outlives it.
  Session(Connection& connection, absl::Duration lease) : connection_(connection), wanted_(lease) {}
  // Ends the session, with all that it owns.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Called once, before all others. The errors of SessionService.Open, which has to answer by then.
  absl::Status Begin(absl::Time deadline);

  // Empty before it has begun.
  std::string token() const;
  // What the server has granted.
  absl::Duration lease() const;

  // Has it look at once whether the server still knows it, if a call's failure says that it may not.
  void Heed(const absl::Status& failure);

  // Waits, for some seconds at most, while it is looking whether the server still knows the session.
  // FAILED_PRECONDITION while another stream has it.
  absl::StatusOr<Commands> TakeCommands();
  void GiveCommands(Commands commands);

 private:
  absl::Status Open(absl::Time deadline);
  absl::Status Renew(absl::Time deadline);
  void KeepOn();
  bool IsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return due_ || closing_; }
  bool IsSettled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_ || !(due_ || looking_); }
  void Looked();
  // False when the session is to end.
  bool Wait(absl::Duration time, bool unless_due);

  Connection& connection_;
  const absl::Duration wanted_;
  mutable absl::Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  absl::Duration granted_ ABSL_GUARDED_BY(mutex_);
  bool due_ ABSL_GUARDED_BY(mutex_) = false;      // renewal is, before its time
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;  // a renewal before its time is under way
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool streaming_ ABSL_GUARDED_BY(mutex_) = false;
  Commands commands_ ABSL_GUARDED_BY(mutex_);
  std::thread keeper_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_SESSION_H_
