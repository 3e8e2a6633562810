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
#include "runtime/cluster/transport.h"
#include "runtime/drivers/remote/protocol.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::remote {

// What hal::Remote::Do asks for.
using TaskHandler = std::function<absl::Status(cluster::Transport& transport, absl::string_view task)>;

class Worker {
 public:
  // Sets memory aside for each device. OUT_OF_MEMORY if there are no addresses.
  static absl::StatusOr<std::unique_ptr<Worker>> Make(std::vector<std::unique_ptr<hal::Device>> devices,
                                                      TaskHandler handler);
  // Ends what it is at; with the transport that Begin was given still open.
  ~Worker();

  // For TransportOptions::reader.
  void Read(cluster::Message message);

  // Says hello to rank 0, and works from now on.
  void Begin(cluster::Transport* transport, const std::string& host);

 private:
  class Lane;
  struct Memory {
    uint64_t base = 0;
    uint64_t bytes = 0;
  };

  Worker(std::vector<std::unique_ptr<hal::Device>> devices, TaskHandler handler);

  // One command, on the thread of its lane: its status, and the rest of its answer.
  absl::Status Do(Lane& lane, Command command, cluster::Unpacker& rest, cluster::Packer& answer);
  absl::Status Write(const Lane& lane, cluster::Unpacker& rest);
  absl::Status Read(const Lane& lane, cluster::Unpacker& rest, cluster::Packer& answer);
  absl::Status Load(cluster::Unpacker& rest, cluster::Packer& answer);
  absl::Status Launch(const Lane& lane, cluster::Unpacker& rest, cluster::Packer& answer);
  // Reads an address and a number of bytes, which must be ours.
  char* Place(cluster::Unpacker& rest, uint64_t& bytes) const;

  const std::vector<std::unique_ptr<hal::Device>> devices_;
  const TaskHandler handler_;
  std::vector<Memory> memory_;  // by device
  cluster::Transport* transport_ = nullptr;
  absl::Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<hal::Module>> modules_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_module_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Lane>> lanes_;  // last, hence the first to go
};

}  // namespace kiln::runtime::remote

#endif  // KILN_RUNTIME_DRIVERS_REMOTE_WORKER_H_
