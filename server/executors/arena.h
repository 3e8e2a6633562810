// Memory that the server and one executor both have, at the same addresses.
//
// Devices of a tenant whose programs run apart keep their buffers here: the server reads and
// writes them itself, an executor's kernels find them where the server says, and they are still
// there when the executor is not.
#ifndef KILN_SERVER_EXECUTORS_ARENA_H_
#define KILN_SERVER_EXECUTORS_ARENA_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/compile_worker/sealed_memory.h"

namespace kiln::server {

class Arena {
 public:
  // The first of its bytes: by device, whether the launch that is under way is to stop.
  static constexpr uint64_t kControlBytes = 4096;
  static constexpr uint32_t kMaxDevices = kControlBytes;

  // So many bytes of addresses beside the control bytes, all zero; memory is taken when they are
  // written. Nobody can make it shorter, so no byte of it can be missing. OUT_OF_MEMORY.
  static absl::StatusOr<std::unique_ptr<Arena>> Make(uint64_t bytes);
  // That of another process, behind `fd`, at the same place.
  static absl::StatusOr<std::unique_ptr<Arena>> Join(int fd, uint64_t base, uint64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return memory_.get(); }
  uint64_t base() const { return base_; }
  // Without the control bytes.
  uint64_t begin() const { return base_ + kControlBytes; }
  uint64_t bytes() const { return bytes_; }

  std::atomic<bool>& Stop(uint32_t device) { return reinterpret_cast<std::atomic<bool>*>(base_)[device]; }

  // Makes [address, address + bytes) zero; whole pages go back to the system.
  static void Clear(uint64_t address, uint64_t bytes);

 private:
  Arena(Descriptor memory, uint64_t base, uint64_t bytes) : memory_(std::move(memory)), base_(base), bytes_(bytes) {}

  const Descriptor memory_;
  const uint64_t base_;
  const uint64_t bytes_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_EXECUTORS_ARENA_H_
