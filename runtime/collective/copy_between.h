// Copies from one device to another.
#ifndef KILN_RUNTIME_COLLECTIVE_COPY_BETWEEN_H_
#define KILN_RUNTIME_COLLECTIVE_COPY_BETWEEN_H_

#include "absl/time/time.h"
#include "runtime/collective/meeting.h"
#include "runtime/hal/buffer.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"
#include "runtime/hal/queue.h"

namespace kiln::runtime::collective {

// Copies between buffers of two devices, ordered by both queues. The slices have one
// size and lie inside their buffers: BUFFER_SIZE_MISMATCH, OUT_OF_BOUNDS. Then as
// Meetings::Submit or, where a device is of another process, MeetWithScripts.
void CopyBetween(Meetings& meetings, hal::Device* from_device, hal::BufferSlice from, hal::Device* to_device,
                 hal::BufferSlice to, absl::Duration timeout, const hal::LaunchControl& control,
                 hal::DoneCallback done);

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_COPY_BETWEEN_H_
