// The queue of a device of another process.
//
// It stands here, in order and with a thread of its own; each entry that concerns the
// device's memory is a command, and ends when that is answered.
#ifndef KILN_RUNTIME_DRIVERS_REMOTE_QUEUE_H_
#define KILN_RUNTIME_DRIVERS_REMOTE_QUEUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/drivers/host/host_queue.h"
#include "runtime/drivers/remote/switchboard.h"
#include "runtime/hal/queue.h"

namespace kiln::runtime::remote {

// One device's line to its process.
struct Line {
  std::shared_ptr<Switchboard> board;
  uint32_t rank = 0;
  uint32_t lane = 0;         // the device's
  uint32_t shared_lane = 0;  // the one that waits for no device
  std::string name;          // the device's

  // Puts a command to the device's lane, and waits. An error that names a dead rank also
  // names the device.
  absl::Status Ask(Command command, std::string rest, std::string* answer = nullptr,
                   const hal::LaunchControl& control = {}) const;
  // To and from the memory at `address`, by one of the lanes.
  absl::Status Write(uint32_t to_lane, const std::vector<absl::string_view>& pieces, uint64_t address,
                     uint64_t bytes) const;
  absl::Status Read(uint32_t from_lane, uint64_t address, uint64_t bytes, void* to) const;
  absl::Status Blame(const absl::Status& status) const;
  absl::Status Health() const { return Blame(board->transport().Life(rank)); }
};

class RemoteQueue final : public hal::Queue {
 public:
  RemoteQueue(const hal::Device* device, const Line* line) : device_(device), line_(*line), order_(device, 0) {}

  using hal::Queue::Submit;
  void Submit(hal::Work* work, uint64_t estimate_ns) override { order_.Submit(work, estimate_ns); }
  void Copy(hal::BufferSlice from, hal::BufferSlice to, hal::DoneCallback done) override;
  void Write(const void* from, hal::BufferSlice to, hal::DoneCallback done) override;
  void WritePieces(std::vector<absl::string_view> pieces, hal::BufferSlice to, hal::DoneCallback done) override;
  void Read(hal::BufferSlice from, void* to, hal::DoneCallback done) override;
  void Fill(hal::BufferSlice to, absl::string_view pattern, hal::DoneCallback done) override;
  uint64_t depth() const override { return order_.depth(); }

  // Zeroes memory that is not in use; then calls `done`.
  void Clear(uint64_t address, uint64_t bytes, std::function<void()> done);

 private:
  const hal::Device* const device_;
  const Line& line_;
  host::HostQueue order_;
};

}  // namespace kiln::runtime::remote

#endif  // KILN_RUNTIME_DRIVERS_REMOTE_QUEUE_H_
