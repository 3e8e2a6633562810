// Finds out which algorithm is fastest, by running all of them.
#ifndef KILN_RUNTIME_COLLECTIVE_MEASURE_H_
#define KILN_RUNTIME_COLLECTIVE_MEASURE_H_

#include <optional>
#include <vector>

#include "runtime/collective/meeting.h"
#include "runtime/collective/thresholds.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::collective {

// Float32 sums of each measured size, a few of each, through the devices' queues like
// anyone's: tens of milliseconds, in which they also serve others. Blocks. Nothing if
// memory is short or a device too busy.
std::optional<Choice> MeasureChoice(Meetings& meetings, const std::vector<hal::Device*>& devices, Kind kind);

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_MEASURE_H_
