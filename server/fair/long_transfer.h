// Transfers that end early once nobody wants them.
//
// A queue's own transfer is one step, however long, in which a stop is not seen. Here one of megabytes is work of the
// queue that goes piece by piece, and looks at its control in between: one entry still, which what comes before and
// after it sees as a whole. So it is where the host sees the memory. Where only the device does, it is that of the
// queue, and ends when it has done all.
#ifndef KILN_SERVER_FAIR_LONG_TRANSFER_H_
#define KILN_SERVER_FAIR_LONG_TRANSFER_H_

#include "absl/strings/string_view.h"
#include "runtime/hal/buffer.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"
#include "runtime/hal/queue.h"

namespace kiln::server {

// Each as the queue of `device` has it, and with the errors of LaunchControl::Check: with the note that some has been
// written, if it has (runtime/hal/wanted_copy.h).
void LongCopy(runtime::hal::Device& device, runtime::hal::BufferSlice from, runtime::hal::BufferSlice to,
              const runtime::hal::LaunchControl& control, runtime::hal::DoneCallback done);
void LongWrite(runtime::hal::Device& device, const void* from, runtime::hal::BufferSlice to,
               const runtime::hal::LaunchControl& control, runtime::hal::DoneCallback done);
void LongRead(runtime::hal::Device& device, runtime::hal::BufferSlice from, void* to,
              const runtime::hal::LaunchControl& control, runtime::hal::DoneCallback done);
// The pattern has 1, 2, 4 or 8 bytes.
void LongFill(runtime::hal::Device& device, runtime::hal::BufferSlice to, absl::string_view pattern,
              const runtime::hal::LaunchControl& control, runtime::hal::DoneCallback done);

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_LONG_TRANSFER_H_
