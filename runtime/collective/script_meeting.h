// Meetings of devices of several processes: each has a script of its own.
#ifndef KILN_RUNTIME_COLLECTIVE_SCRIPT_MEETING_H_
#define KILN_RUNTIME_COLLECTIVE_SCRIPT_MEETING_H_

#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/collective/meeting.h"
#include "runtime/collective/script.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::collective {

// Whether any of them is of another process.
bool AnyRemote(const std::vector<hal::Device*>& devices);

// Scripts work on memory that their process sees: NOT_IMPLEMENTED naming the device of a slice that
// is of this process and not seen by it.
absl::Status CheckSeen(const std::vector<hal::BufferSlice>& slices);

// Gets the outcome, and the seconds from when all were there until the last had ended.
using ScriptsDone = absl::AnyInvocable<void(absl::Status, double seconds)>;

// One script for each device, at least one of which is remote, run where they meet
// (Meetings::Submit). The scripts' numbers and places are filled in here. They write to
// `written` alone, as far as clients can have something there. Beside the
// errors of meetings: PARTICIPANT_MISSING naming the device of a process that died
// meanwhile; then what was to be written is anything.
void MeetWithScripts(Meetings& meetings, std::vector<hal::Device*> devices, std::vector<Script> scripts,
                     std::vector<hal::BufferSlice> written, absl::Duration timeout, const hal::LaunchControl& control,
                     ScriptsDone done);

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_SCRIPT_MEETING_H_
