// Recordings: sequences of executions, kept under their digests.
//
// A recording is content-addressed, as a program is, and any client of its domain that knows
// its name may replay it; what it runs on is what the caller brings, and is checked each time. It
// holds its programs: a step that is replayed for hours does not lose one of them
// because the program store saw nothing but replays. The price is bounded by weighing
// a recording with all its programs.
#ifndef KILN_SERVER_ENGINE_EXECUTIONS_RECORDINGS_H_
#define KILN_SERVER_ENGINE_EXECUTIONS_RECORDINGS_H_

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kiln/v1/kernel_service.pb.h"
#include "runtime/cache/program_cache.h"
#include "runtime/exec/sequence.h"
#include "server/engine/programs/program_store.h"
#include "server/fair/lateness.h"

namespace kiln::server {

struct Recording {
  Digest id;
  TrustDomain domain;
  std::shared_ptr<const runtime::Sequence> sequence;
  // Its programs, with what is paid for them, and what is paid for all else.
  std::vector<ProgramStore::Program> programs;
  Charge charge;
  double run_seconds = 0;  // of a replay, as it is estimated
  mutable Trials trials;   // of its replays, by their deadlines
};

// What a request to record is about: its programs, found, in the request's order.
struct RecordedPrograms {
  runtime::hal::Device* device = nullptr;
  std::vector<Digest> keys;
  std::vector<ProgramStore::Program> programs;
};

// Safe from any thread.
class Recordings {
 public:
  using Handle = std::shared_ptr<const Recording>;

  // A replay that is estimated to take `max_run_seconds` or longer is not recorded.
  Recordings(uint64_t limit_bytes, uint64_t max_run_seconds)
      : limit_bytes_(limit_bytes), max_run_seconds_(max_run_seconds), cache_(limit_bytes) {}

  // Each failure names the step:
  //   BAD_ARGUMENT                         a step of no program; an argument without a
  //                                        value or given twice; an integer where
  //                                        memory is wanted, or the other way round;
  //                                        another number of memories than of devices
  //   MISSING_ARGUMENT, UNKNOWN_ARGUMENT   a slot too few or too many
  //   GRAPH_TOO_LARGE                      all steps together take too long
  //   QUOTA_EXCEEDED                       they do for `account`, which may be null
  // and those of runtime::Sequence::Make and of `pay` (ProgramStore::Pay).
  using PayFn = absl::FunctionRef<absl::StatusOr<Charge>(uint64_t bytes)>;
  absl::StatusOr<Handle> Record(const v1::RecordSequenceRequest& request, const RecordedPrograms& programs,
                                const TrustDomain& domain, const Account* account, PayFn pay);

  // NEED_GRAPH, as for a program, if it is not there or no longer, or another domain's.
  absl::StatusOr<Handle> Find(absl::string_view id, const TrustDomain& domain);

  // ProgramStore::DropFn.
  void Drop(const TrustDomain& domain, absl::FunctionRef<bool()> enough) {
    cache_.EraseIdle([&domain](const Recording& recording) { return recording.domain == domain; }, enough);
  }

  // Forgets all of a domain's. Who replays one has it until that ends.
  void Forget(const TrustDomain& domain) {
    for (const auto& [key, recording] : cache_.List()) {
      if (recording->domain == domain) cache_.Erase(key);
    }
  }

 private:
  const uint64_t limit_bytes_;
  const uint64_t max_run_seconds_;
  runtime::ProgramCache<Recording> cache_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_EXECUTIONS_RECORDINGS_H_
