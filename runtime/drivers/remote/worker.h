// The other end: a rank that does what rank 0 says, on devices of its own.
#ifndef KILN_RUNTIME_DRIVERS_REMOTE_WORKER_H_
#define KILN_RUNTIME_DRIVERS_REMOTE_WORKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/cluster/ranges.h"
#include "runtime/cluster/transport.h"
#include "runtime/drivers/remote/protocol.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::remote {

// What hal::Remote::Do asks for; `memory` is all that a task may touch.
using TaskHandler =
    std::function<absl::Status(cluster::Transport& transport, absl::string_view task, const cluster::Ranges& memory)>;

class Worker {
 public:
  // Sets memory aside for each device. OUT_OF_MEMORY if there are no addresses.
  static absl::StatusOr<std::unique_ptr<Worker>> Make(std::vector<std::unique_ptr<hal::Device>> devices,
                                                      TaskHandler handler);
  // Ends what it is at; with the transport that Begin was given still open.
  ~Worker();

  // For TransportOptions::reader. INTERNAL_FAULT for what is no command of rank 0's.
  absl::Status Read(cluster::Message message);

  // Says hello to rank 0, and works from now on.
  void Begin(cluster::Transport* transport, const std::string& host);

 private:
  class Lane;
  struct Loaded {
    std::shared_ptr<hal::Module> module;
    uint32_t device = 0;
    // By kernel, for each operand that its steps give it: whether it is memory, or a number.
    std::vector<std::vector<bool>> in_memory;
  };
  struct Place {
    char* memory = nullptr;
    uint64_t bytes = 0;
  };

  Worker(std::vector<std::unique_ptr<hal::Device>> devices, TaskHandler handler);

  // One command, on the thread of its lane: its status, and the rest of its answer.
  absl::Status Do(Lane& lane, Command command, cluster::Unpacker& rest, cluster::Packer& answer);
  absl::Status Write(const Lane& lane, cluster::Unpacker& rest);
  absl::Status Read(const Lane& lane, cluster::Unpacker& rest, cluster::Packer& answer);
  absl::Status Load(cluster::Unpacker& rest, cluster::Packer& answer);
  absl::Status Launch(const Lane& lane, cluster::Unpacker& rest, cluster::Packer& answer);
  absl::Status Copy(cluster::Unpacker& rest) const;
  // Reads an address and a number of bytes, which must be ours.
  absl::StatusOr<Place> ReadPlace(cluster::Unpacker& rest) const;
  // Rank 0 waits for a parcel that will not come, or be asked for: it would do so for ever.
  absl::Status GiveUp(const absl::Status& why);
  // What was loaded, if it is of this lane's device; and its steps, which are checked.
  absl::StatusOr<Loaded> Find(const Lane& lane, uint64_t module);
  absl::Status ReadSteps(cluster::Unpacker& rest, const Loaded& loaded, std::vector<hal::LaunchStep>& steps,
                         std::vector<void*>& operands) const;

  const std::vector<std::unique_ptr<hal::Device>> devices_;
  const TaskHandler handler_;
  cluster::Ranges memory_;  // by device
  cluster::Transport* transport_ = nullptr;
  absl::Mutex mutex_;
  std::map<uint64_t, Loaded> modules_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_module_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Lane>> lanes_;  // last, hence the first to go
};

}  // namespace kiln::runtime::remote

#endif  // KILN_RUNTIME_DRIVERS_REMOTE_WORKER_H_
