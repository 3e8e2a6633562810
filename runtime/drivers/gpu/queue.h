// The queue of a GPU: a thread here, and one of the GPU's streams.
//
// The thread runs one entry after the other, and an entry waits for what it asked the stream
// for, so that it ends before the next begins, as hal/queue.h promises. Within an entry nothing
// waits that need not: a program's launches follow each other on the GPU (module.h).
#ifndef KILN_RUNTIME_DRIVERS_GPU_QUEUE_H_
#define KILN_RUNTIME_DRIVERS_GPU_QUEUE_H_

#include <cstdint>
#include <vector>

#include "runtime/drivers/gpu/transfers.h"
#include "runtime/drivers/host/host_queue.h"
#include "runtime/hal/device.h"
#include "runtime/hal/queue.h"

namespace kiln::runtime::gpu {

class GpuQueue final : public hal::Queue {
 public:
  // Transfers accept the buffers of `device` and use its scratch memory.
  GpuQueue(hal::Device* device, Card* card, Stream stream)
      : device_(device), transfers_(card, stream), order_(device, /*inline_limit_ns=*/0) {}

  using hal::Queue::Submit;
  void Submit(hal::Work* work, uint64_t estimate_ns) override { order_.Submit(work, estimate_ns); }
  void Copy(hal::BufferSlice from, hal::BufferSlice to, hal::DoneCallback done) override;
  void Write(const void* from, hal::BufferSlice to, hal::DoneCallback done) override;
  void WritePieces(std::vector<absl::string_view> pieces, hal::BufferSlice to, hal::DoneCallback done) override;
  void Read(hal::BufferSlice from, void* to, hal::DoneCallback done) override;
  void Fill(hal::BufferSlice to, absl::string_view pattern, hal::DoneCallback done) override;
  uint64_t depth() const override { return order_.depth(); }

 private:
  absl::Status CopyNow(const hal::BufferSlice& from, const hal::BufferSlice& to);

  hal::Device* const device_;
  Transfers transfers_;    // from within entries
  host::HostQueue order_;  // last, hence the first to go
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_QUEUE_H_
