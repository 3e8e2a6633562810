// What one participant does in a collective whose participants do not see each other's
// memory: a list of steps, made by rank 0's process for all of them.
//
// So an algorithm is planned in one place (across.cc), and wherever a participant is, it
// does the same few things: sends, receives, copies and adds up.
#ifndef KILN_RUNTIME_COLLECTIVE_SCRIPT_H_
#define KILN_RUNTIME_COLLECTIVE_SCRIPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/dtype.pb.h"
#include "runtime/cluster/ranges.h"
#include "runtime/cluster/transport.h"
#include "runtime/collective/algorithms/arithmetic.h"

namespace kiln::runtime::collective {

// Addresses are of the participant's own process.
struct ScriptStep {
  enum class Kind : uint8_t {
    kSend,     // `bytes` at `from`, to `peer`; the next steps do not wait for it
    kReceive,  // `bytes` to `to`, from `peer`; so is this
    kWait,     // for all that was sent and received so far
    kCopy,     // `bytes` from `from` to `to`
    kReduce,   // `bytes` of each of `inputs`, in their order, into `to`
  };
  Kind kind = Kind::kWait;
  uint32_t peer = 0;  // a participant
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t bytes = 0;
  std::vector<uint64_t> inputs;
};

struct Script {
  // Of the collective: no two that meet have the same, and less than kScripts.
  uint32_t number = 0;
  uint32_t self = 0;             // the participant
  std::vector<uint32_t> places;  // by participant, the rank of its process
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  ReduceOp op = ReduceOp::kSum;
  std::vector<ScriptStep> steps;
};

inline constexpr uint32_t kScripts = cluster::kTagEnd / 2 / 64 / 64;

std::string Pack(const Script& script);
// A script for `rank` of `ranks`, as another rank has sent it. INTERNAL_FAULT if it is none, or
// would touch anything outside of `memory`.
absl::StatusOr<Script> UnpackScript(absl::string_view bytes, uint32_t rank, uint32_t ranks,
                                    const cluster::Ranges& memory);

// Does it, on the caller's thread. PARTICIPANT_MISSING if a process of any participant
// dies before this one's share is done; then what it has written is anything.
absl::Status Run(const Script& script, cluster::Transport& transport);

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_SCRIPT_H_
