// Collectives of participants in several processes.
//
// No process sees all memory, so pieces of tensors travel. What each participant does is
// planned here as a script (script.h). Each part is combined by one participant, in the
// order of the ranks, so the result is bit for bit that of one process, whatever
// the plan.
#ifndef KILN_RUNTIME_COLLECTIVE_ACROSS_H_
#define KILN_RUNTIME_COLLECTIVE_ACROSS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/collective/collective.h"
#include "runtime/collective/script.h"
#include "runtime/collective/script_meeting.h"

namespace kiln::runtime::collective {

// Where one participant's memory is, in its own process; 0 for what it has not.
struct Share {
  uint64_t input = 0;
  uint64_t output = 0;
  uint64_t scratch = 0;
};

// How a collective goes about it.
enum class Way : uint8_t {
  kOneStep,  // each participant sends all it has to all that want it: for a few bytes
  kParts,    // each participant works on its part: no link carries more than it must
  kTree,     // each participant that has it passes it on: a broadcast of few bytes
};
const char* NameOf(Way way);
Way WayFor(Kind kind, uint32_t ranks, uint64_t bytes);

// Bytes of scratch that the participant `rank` needs.
uint64_t ScratchBytes(Kind kind, Way way, uint32_t ranks, uint32_t root, uint32_t rank, uint64_t count, uint32_t item);

// One script for each participant, without number, places and dtype.
std::vector<Script> PlanScripts(Kind kind, Way way, uint32_t root, uint64_t count, uint32_t item,
                                const std::vector<Share>& shares);

// As Collectives::Run, of a request that Check has passed and whose devices are not all
// of this process. PARTICIPANT_MISSING naming the device of a process that died before
// or meanwhile; after the latter, the outputs are anything. OUT_OF_MEMORY for scratch.
void RunAcross(Request request, Meetings& meetings, absl::Duration timeout, const hal::LaunchControl& control,
               ReportCallback done);

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_ACROSS_H_
