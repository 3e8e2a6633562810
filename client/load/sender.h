// How one class' requests are sent and their answers counted: the parts of a Generator.
#ifndef KILN_CLIENT_LOAD_SENDER_H_
#define KILN_CLIENT_LOAD_SENDER_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/client.h"
#include "client/cpp/transport/credentials.h"
#include "client/load/generator.h"
#include "client/load/requests.h"

namespace kiln::load {

// What the sending thread waits for. Safe from any thread.
class Answers {
 public:
  void Sent();
  // `room`: a sender that holds requests back can go on. The last that a call does.
  void Came(bool room);
  void Stop();
  bool stopped() const;

  // Until there is room, it is to stop, or so much time has passed.
  void Wait(absl::Duration most);
  // Until none is under way; whether that came in time.
  bool WaitForAll(absl::Duration most);

 private:
  bool Changed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return room_ || stopped_; }
  bool NoneUnderWay() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_ == 0; }

  mutable absl::Mutex mutex_;
  uint64_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool room_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// Who sends: credentials and connections. Used by the sending thread alone.
struct Generator::Tenant {
  static absl::StatusOr<std::unique_ptr<Tenant>> Connect(const std::string& server,
                                                         const client::ClientOptions& options, const TenantSpec& spec);
  explicit Tenant(TenantSpec of, const client::CredentialOptions& credentials)
      : spec(std::move(of)), bearer(credentials) {}
  // In turns.
  grpc::GenericStub& NextStub() { return *stubs[next++ % stubs.size()]; }

  const TenantSpec spec;
  client::BearerSource bearer;
  std::unique_ptr<client::Client> client;                 // for what is made ready
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;  // one a connection
  size_t next = 0;
};

// The sending thread calls all that is public; answers come on gRPC's threads.
class Generator::Sender {
 public:
  // The tenant and the answers outlive this.
  Sender(ClassSpec spec, Tenant* tenant, Requests requests, uint64_t seed, Answers* answers)
      : spec_(std::move(spec)), tenant_(tenant), requests_(std::move(requests)), seed_(seed), answers_(answers) {}

  // A step whose clock began at `begin`, and of which counts what is due from warm_ns to end_ns.
  void Begin(const Step& step, std::chrono::steady_clock::time_point begin, uint64_t warm_ns, uint64_t end_ns);
  // Sends what is due, as far as it may. When it is to be called again, in nanoseconds of the step's clock; if
  // that is never, then once there is room.
  uint64_t SendDue();
  // At end_ns, or earlier: sends no more, and counts what is held back as never sent.
  void GiveUp(uint64_t now_ns);
  // Cancels what is under way; it is then soon answered.
  void Cancel();
  // When nothing is under way.
  ClassResult TakeResult();

 private:
  class Call;
  using Context = std::shared_ptr<grpc::ClientContext>;

  uint64_t NowNs() const { return static_cast<uint64_t>((std::chrono::steady_clock::now() - begin_).count()); }
  bool Counts(uint64_t due_ns) const { return due_ns >= warm_ns_; }
  bool HasRoom(uint64_t now_ns);
  void Send(uint64_t due_ns, uint64_t now_ns);
  void Count(const std::string& what, const std::string& text, uint64_t waited_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotSent(uint64_t due_ns, uint64_t now_ns);
  void Answered(Call& call, const grpc::Status& status);

  const ClassSpec spec_;
  Tenant* const tenant_;
  Requests requests_;
  const uint64_t seed_;
  Answers* const answers_;

  std::chrono::steady_clock::time_point begin_;
  uint64_t warm_ns_ = 0, end_ns_ = 0;
  uint64_t deadline_ns_ = 0;  // 0: none
  std::optional<Arrivals> arrivals_;

  absl::Mutex mutex_;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;  // back, what is due, for want of room
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<Call*, Context> calls_ ABSL_GUARDED_BY(mutex_);  // under way
  ClassResult result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::load

#endif  // KILN_CLIENT_LOAD_SENDER_H_
