// What takes more than one addition to count.
#ifndef KILN_SERVER_METRICS_COUNT_H_
#define KILN_SERVER_METRICS_COUNT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/observer.h"
#include "server/metrics/metrics.h"

namespace kiln::server {

// Limit::kOther for a name that is not in the list.
Limit LimitNamed(absl::string_view name);

// Whether it says that there is no more of something.
bool IsForALimit(const absl::Status& status);

// A call or a command that failed: a rejection, if it was for a limit.
void CountFailure(Metrics& metrics, const absl::Status& status);

// One that came as far as `place`, if it was because nobody waits for it any more.
void CountEnded(Metrics& metrics, const absl::Status& status, Place place);

CompileEnd EndOf(const absl::Status& status);

// Counts runs on the server's `devices`, by their names, and tells `next`, too, which may be null. Metrics
// and `next` outlive it.
class RunCounter final : public runtime::RuntimeObserver {
 public:
  RunCounter(Metrics* metrics, std::vector<std::string> devices, runtime::RuntimeObserver* next)
      : metrics_(metrics), devices_(std::move(devices)), next_(next) {}

  void OnRun(const runtime::RunRecord& record) override;
  bool WantsLaunches(uint64_t trace) const override { return next_ != nullptr && next_->WantsLaunches(trace); }
  void OnLaunch(const runtime::LaunchRecord& record) override { next_->OnLaunch(record); }

 private:
  Metrics* const metrics_;
  const std::vector<std::string> devices_;
  runtime::RuntimeObserver* const next_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_METRICS_COUNT_H_
