// A device's queue for what one caller does without a program: as runtime/hal/queue.h has it, each
// entry in its turn (turns.h), and charged by its bytes, whatever its direction: it takes the
// device's time, as a run does.
#ifndef KILN_SERVER_FAIR_LANE_H_
#define KILN_SERVER_FAIR_LANE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"
#include "runtime/hal/queue.h"
#include "server/fair/turns.h"

namespace kiln::server {

// Used up by the call that is made of it. The errors of a turn go to `done`, too. A stop takes effect while one waits
// and, but for WritePieces, in the middle of a long one (long_transfer.h).
class Lane {
 public:
  Lane(Turns& turns, runtime::hal::Device& device, const runtime::hal::LaunchControl& control)
      : turns_(turns), device_(device), control_(control) {}

  void Copy(runtime::hal::BufferSlice from, runtime::hal::BufferSlice to, runtime::hal::DoneCallback done);
  void Write(const void* from, runtime::hal::BufferSlice to, runtime::hal::DoneCallback done);
  void WritePieces(std::vector<absl::string_view> pieces, runtime::hal::BufferSlice to,
                   runtime::hal::DoneCallback done);
  void Read(runtime::hal::BufferSlice from, void* to, runtime::hal::DoneCallback done);
  void Fill(runtime::hal::BufferSlice to, absl::string_view pattern, runtime::hal::DoneCallback done);
  // After all that the caller has submitted there, which may have been refused.
  void Pass(runtime::hal::DoneCallback done);

 private:
  using Submit = absl::AnyInvocable<void(runtime::hal::Queue&, runtime::hal::DoneCallback)>;
  void Take(uint64_t bytes, Submit submit, runtime::hal::DoneCallback done);

  Turns& turns_;
  runtime::hal::Device& device_;
  const runtime::hal::LaunchControl& control_;
};

// How long so many bytes are thought to keep a device.
inline uint64_t TransferNs(uint64_t bytes) { return 500 + bytes / 8; }

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_LANE_H_
