// Rank 0's end of all lines: sends commands to the other ranks, and hands their answers
// to the callers.
#ifndef KILN_RUNTIME_DRIVERS_REMOTE_SWITCHBOARD_H_
#define KILN_RUNTIME_DRIVERS_REMOTE_SWITCHBOARD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/cluster/transport.h"
#include "runtime/drivers/remote/protocol.h"
#include "runtime/hal/module.h"

namespace kiln::runtime::remote {

// Safe from any thread.
class Switchboard {
 public:
  // `died` as TransportOptions::died; of rank 0, TransportOptions::lost.
  static absl::StatusOr<std::shared_ptr<Switchboard>> Open(
      const std::function<absl::StatusOr<std::unique_ptr<cluster::Wire>>()>& make_wire, absl::Duration silence,
      std::function<void(uint32_t rank, const absl::Status& why)> died);

  cluster::Transport& transport() { return *transport_; }

  // Waits for the other ranks to say what they offer; by rank, rank 0's is empty.
  // PARTICIPANT_MISSING if one does not in time.
  absl::StatusOr<std::vector<Hello>> Gather(absl::Duration timeout);

  // Puts a command; its number.
  uint64_t Begin(uint32_t rank, uint32_t lane, Command command, std::string rest);
  // Waits for its answer: the status, and whatever else belongs to it. Once `control`
  // says so, the other side is told to stop; it answers all the same.
  absl::Status End(uint64_t number, std::string* answer = nullptr, const hal::LaunchControl& control = {});
  // Does not want to know.
  void Forget(uint64_t number);

 private:
  struct Call {
    uint32_t rank = 0;
    uint32_t lane = 0;
    bool ended = false;
    bool forgotten = false;
    absl::Status status;
    std::string answer;
  };

  Switchboard() = default;
  absl::Status Read(cluster::Message message);
  void Died(uint32_t rank, const absl::Status& why);

  std::function<void(uint32_t, const absl::Status&)> died_;
  absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, Hello> hellos_ ABSL_GUARDED_BY(mutex_);
  std::set<uint32_t> dead_ ABSL_GUARDED_BY(mutex_);  // of which `died` was told
  std::unique_ptr<cluster::Transport> transport_;    // last, hence the first to go
};

}  // namespace kiln::runtime::remote

#endif  // KILN_RUNTIME_DRIVERS_REMOTE_SWITCHBOARD_H_
