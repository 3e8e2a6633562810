// DebugService.Time: one execution again and again, and what each took of the device.
//
// Tested by tests/e2e/evict_test.cc.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "kiln/v1/debug_service.pb.h"
#include "server/messages/convert.h"
#include "server/services/rpcs.h"

namespace kiln::server {
namespace {

using TimeCall = UnaryCall<v1::TimeRequest, v1::TimeResponse>;

constexpr uint32_t kMaxRuns = 1000, kUsualRuns = 10;

absl::Status CheckRepeat(uint32_t repeat) {
  if (repeat <= kMaxRuns) return absl::OkStatus();
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("repeat");
  return MakeError(detail, absl::StrCat("repeat is ", repeat, "; at most ", kMaxRuns, " runs are timed in one call"));
}

// One call, from its first run to its answer; owns itself. Each run is an execution like any other, with its turn and
// its quotas; the next is asked for when it has ended.
class Timing {
 public:
  explicit Timing(TimeCall& call)
      : call_(call), runs_(call.request().repeat() == 0 ? kUsualRuns : call.request().repeat()) {}

  // An answer may come within the call that asks, or later by another thread: whoever of the two is last goes on, so
  // that runs do not nest.
  void Run() {
    do {
      steps_.store(0, std::memory_order_relaxed);
      auto asked = ToExecuteRequest(call_.request().execute());
      if (!asked.ok()) return End(asked.status());
      asked->caller = call_.session();
      asked->results_inline = false;
      // A graph that was sent is checked and hashed once.
      if (!graph_hash_.empty()) {
        asked->graph = nullptr;
        asked->graph_hash = graph_hash_;
      }
      call_.env().engine.Execute(*std::move(asked), call_.control(), [this](absl::StatusOr<ExecuteResult> result) {
        status_ = Take(std::move(result));
        if (steps_.fetch_add(1, std::memory_order_acq_rel) == 1) GoOn();
      });
      if (steps_.fetch_add(1, std::memory_order_acq_rel) == 0) return;
    } while (status_.ok() && call_.response().seconds_size() < static_cast<int>(runs_));
    End(std::move(status_));
  }

 private:
  void GoOn() {
    if (status_.ok() && call_.response().seconds_size() < static_cast<int>(runs_)) return Run();
    End(std::move(status_));
  }

  absl::Status Take(absl::StatusOr<ExecuteResult> result) {
    KILN_RETURN_IF_ERROR(result.status());
    if (graph_hash_.empty()) graph_hash_ = std::string(result->program->graph_hash.view());
    call_.response().add_seconds(result->timing.device / 1e6);
    // What it has made nobody has been told of.
    std::vector<uint64_t> made;
    for (const ResultValue& value : result->results) {
      if (result->program->signature().results(value.index).has_aliases()) continue;
      if (value.handle != 0) made.push_back(value.handle);
      for (const ResultValue::Shard& shard : value.shards) made.push_back(shard.handle);
    }
    // A session that has ended has freed them.
    if (!made.empty()) call_.env().engine.buffers().Free(made, call_.session().get()).IgnoreError();
    return absl::OkStatus();
  }

  void End(absl::Status status) {
    const std::unique_ptr<Timing> self(this);
    call_.Reply(std::move(status));
  }

  TimeCall& call_;
  const uint32_t runs_;
  std::string graph_hash_;
  absl::Status status_;
  std::atomic<int> steps_{0};
};

}  // namespace

void rpc::DebugService::Time(TimeCall& call) {
  if (absl::Status status = CheckRepeat(call.request().repeat()); !status.ok()) return call.Reply(std::move(status));
  (new Timing(call))->Run();
}

}  // namespace kiln::server
