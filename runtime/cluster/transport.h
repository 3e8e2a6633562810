// Sends and receives for all threads of one rank, and knows which ranks are alive.
//
// One thread does all that a Wire does, since MPI is best left to one. It looks often
// while something is under way, and ever less often when nothing is: MPI cannot be slept
// on, and ranks may have to share a core.
//
// Rank 0 is the server's; the others work for it. Rank 0 and every other rank exchange
// heartbeats some times a second. A rank that is silent for too long is dead, for ever, and
// rank 0 reports that to all ranks. No transfer waits for a dead rank: it ends with an
// error that names the rank. A rank that has not heard from rank 0 for as long, or finds that
// it was itself stopped for as long, must end at once (TransportOptions::lost). Rank 0 waits a
// quarter longer than that, so a rank that is declared dead cannot come back and write to
// memory that has been reused.
#ifndef KILN_RUNTIME_CLUSTER_TRANSPORT_H_
#define KILN_RUNTIME_CLUSTER_TRANSPORT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "runtime/cluster/wire.h"

namespace kiln::runtime::cluster {

// Most ranks of a job.
inline constexpr uint32_t kMaxRanks = 64;
// Tags of parcels are below this.
inline constexpr uint32_t kTagEnd = uint32_t{1} << 30;

struct TransportOptions {
  absl::Duration silence = absl::Seconds(10);
  // All on the transport's own thread; must not wait for it. Null does nothing.
  // What is no message for this rank has an error: who sent it is taken for dead.
  std::function<absl::Status(Message)> reader;
  // Once for each rank that dies, with what Life says of it.
  std::function<void(uint32_t rank, const absl::Status& why)> died;
  // Rank 0 has ended the job.
  std::function<void()> goodbye;
  // This rank must end, without touching anything: rank 0 takes it for dead, or is dead, or
  // the wire does not come back from a call. Then it is called on another thread.
  std::function<void(const std::string& why)> lost;
};

// Safe from any thread.
class Transport {
 public:
  // A send or a receipt under way.
  class Parcel {
   private:
    friend class Transport;
    uint32_t peer = 0;
    uint32_t tag = 0;
    char* memory = nullptr;
    uint64_t bytes = 0;
    bool sends = false;
    // Pieces that have not ended; and what the parcel came to, valid once there are none.
    uint32_t left = 0;
    absl::Status outcome;
    bool unwanted = false;
  };
  using ParcelPtr = std::shared_ptr<Parcel>;

  // `make_wire` is called on the transport's thread.
  static absl::StatusOr<std::unique_ptr<Transport>> Open(
      const std::function<absl::StatusOr<std::unique_ptr<Wire>>()>& make_wire, TransportOptions options);
  // Leaves the job. On rank 0 that ends it for all.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }

  // Sends a message. Never blocks; what goes to the dead is lost.
  void Tell(uint32_t to, std::string bytes);

  // Begins. The memory must stay until Wait has returned.
  ParcelPtr Send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes);
  ParcelPtr Receive(uint32_t from, uint32_t tag, void* to, uint64_t bytes);
  // Blocks until it has ended; then its memory is not accessed any more. An error names
  // the dead rank: the other one, or one of `watched`, without which the other may never
  // begin the transfer.
  absl::Status Wait(const ParcelPtr& parcel, absl::Span<const uint32_t> watched = {});

  // OK, or PARTICIPANT_MISSING with which rank is dead and how that was noticed.
  absl::Status Life(uint32_t rank) const;
  // Takes a rank for dead. What people call it ("rank 2 on host b") is `SetName`'s.
  void Bury(uint32_t rank, const std::string& how);
  void SetName(uint32_t rank, std::string name);

 private:
  using Clock = std::chrono::steady_clock;
  // What the wire has begun: a message, or a piece of a parcel.
  struct Going {
    Wire::Request request = 0;
    uint32_t peer = 0;
    std::unique_ptr<std::string> message;  // stays where it is
    ParcelPtr parcel;
    bool cancelled = false;
  };
  // What it shall begin.
  struct Order {
    uint32_t to;
    std::string message;
    ParcelPtr parcel;
  };

  explicit Transport(TransportOptions options) : options_(std::move(options)) {}

  ParcelPtr Begin(uint32_t peer, uint32_t tag, char* memory, uint64_t bytes, bool sends);
  void Guard();
  void Main(const std::function<absl::StatusOr<std::unique_ptr<Wire>>()>& make_wire, absl::Status* opened);
  // -- The thread's
  // Each says whether anything happened.
  bool TakeOrders();
  bool TestGoing();
  bool Unwanted(const Going& going) const;
  bool ReadMessages();
  void Start(Order order);
  void StartMessage(uint32_t to, std::string message);
  void Beat(Clock::time_point now);
  void Heard(const Message& message);
  void ReadBeat(absl::string_view bytes);
  void Listen(Clock::time_point now);
  void Finish(Going going, const absl::Status& status);
  void Pause(Clock::duration idle);
  void Leave();

  const TransportOptions options_;
  uint32_t rank_ = 0;
  uint32_t size_ = 1;

  mutable absl::Mutex mutex_;
  std::vector<Order> orders_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Status> life_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> died_ ABSL_GUARDED_BY(mutex_);  // ranks to report
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;

  // -- The thread's
  std::unique_ptr<Wire> wire_;
  std::vector<Going> going_;
  std::vector<std::unique_ptr<std::string>> undelivered_;  // the wire may look at them yet
  std::vector<Clock::time_point> heard_;
  Clock::time_point next_beat_;
  bool dismissed_ = false;  // by rank 0
  bool together_ = true;    // no rank is dead as the job ends
  std::atomic<uint64_t> loops_ = 0;
  std::thread thread_;
  std::thread guard_;
};

}  // namespace kiln::runtime::cluster

#endif  // KILN_RUNTIME_CLUSTER_TRANSPORT_H_
