// The channel to one server, and what all calls have in common: deadlines,
// errors with their details, counted bytes, and handles given back in batches.
// Clients, buffers and programs share one Connection and keep it alive.
//
// Threads: every method may be called from any thread.
#ifndef KILN_CLIENT_CPP_TRANSPORT_CONNECTION_H_
#define KILN_CLIENT_CPP_TRANSPORT_CONNECTION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/transport/credentials.h"
#include "client/cpp/transport/retries.h"
#include "client/cpp/transport/session.h"

namespace grpc {
class Channel;
class ClientContext;
class Status;
}  // namespace grpc

namespace kiln::client {

struct Stubs;  // stubs.h

struct ClientOptions {
  // Where graphs are compiled and buffers allocated; empty: the server's first.
  std::string device;
  // How long Connect waits for the server.
  absl::Duration connect_timeout = absl::Seconds(10);
  // How long any one call may take, with all its attempts.
  absl::Duration call_timeout = absl::InfiniteDuration();
  // Whether data moves through memory shared with the server, where it offers that.
  bool shared_memory = true;
  // With one, what the client makes belongs to a session, which lives as long as client, programs and buffers do; when
  // the server has heard nothing of it for so long, it frees all that. Without, what is made stays until it is freed.
  absl::Duration lease = absl::ZeroDuration();
  // Unary calls that the server refuses for now are made again.
  RetryOptions retries;
  // What the environment says, unless told otherwise.
  CredentialOptions credentials = CredentialOptions::FromEnvironment();
};

// Bytes of messages, without what HTTP/2 adds.
struct Traffic {
  uint64_t calls = 0;
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
};

// For how long nothing may come on a connection on which calls wait, before it is asked whether it is alive. Longer
// than a session is silent, whose renewals are answered: a connection in order is asked nothing. gRPC servers take
// pings amiss that come oftener than each 5 minutes for nothing.
absl::Duration KeepaliveTime(absl::Duration lease);

class Connection {
 public:
  // The options' credentials have been checked.
  Connection(std::string target, ClientOptions options);
  // Gives the last handles back.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // UNAVAILABLE, saying what to do, unless a connection stands within `patience`.
  absl::Status WaitUntilReady(absl::Duration patience);

  // Begins the session that the options ask for. Called once, before the connection is shared; the errors of
  // SessionService.Open, which has to answer by then.
  absl::Status BeginSession(absl::Time deadline);
  // Null without one.
  Session* session() const { return session_.get(); }

  // Whether a connection stands, or does within `timeout`.
  bool IsReachable(absl::Duration timeout);

  // What every call does: unary ones by Call (stubs.h).
  void Prepare(grpc::ClientContext& context) const;
  // The same for a call that was begun earlier, and ends by then; one about sessions is made under none.
  void Prepare(grpc::ClientContext& context, absl::Time deadline, bool under_session = true) const;
  // Of a call that begins now.
  absl::Time Deadline() const { return absl::Now() + options_.call_timeout; }
  // Says who asks, and returns what it says (empty: nothing); part of Prepare, for calls that last and name their
  // session themselves.
  std::string Authorize(grpc::ClientContext& context) const;
  // What Authorize would say now, by a token's file that is read anew. May block on the file.
  std::string NewestBearer() const { return bearer_.Newest(); }
  void Count(const char* name, uint64_t calls, uint64_t sent, uint64_t received);
  absl::Status Convert(const grpc::Status& status) const;

  // Gives a handle back, at the latest when `bytes` or handles have piled up, or
  // with the connection.
  void FreeLater(uint64_t handle, uint64_t bytes);
  // Gives all such handles back now.
  void FlushFrees();

  // By RPC name.
  std::map<std::string, Traffic> traffic() const;
  const ClientOptions& options() const { return options_; }
  const std::string& target() const { return target_; }

  const Stubs& stubs() const { return *stubs_; }
  // For stubs that are not among those.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  Retries& retries() { return retries_; }

 private:
  const std::string target_;
  const ClientOptions options_;
  mutable BearerSource bearer_;
  Retries retries_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<const Stubs> stubs_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Traffic> traffic_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> freed_ ABSL_GUARDED_BY(mutex_);
  uint64_t freed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Destroyed first: its thread makes calls.
  std::unique_ptr<Session> session_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_CONNECTION_H_
