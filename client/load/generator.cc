#include "client/load/generator.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "client/load/sender.h"

namespace kiln::load {
namespace {

using Clock = std::chrono::steady_clock;

// The system may let a thread sleep longer, by 50 us unless told otherwise, than it asked for.
class PunctualThread {
 public:
  PunctualThread() : slack_(prctl(PR_GET_TIMERSLACK)) { prctl(PR_SET_TIMERSLACK, 1); }
  ~PunctualThread() { prctl(PR_SET_TIMERSLACK, slack_); }

 private:
  const int slack_;
};

}  // namespace

Histogram ClassResult::Latencies() const {
  Histogram all = answered;
  all.Merge(failed);
  return all;
}

Generator::Generator() : answers_(std::make_unique<Answers>()) {}
Generator::~Generator() = default;

void Generator::Stop() { answers_->Stop(); }

absl::StatusOr<std::unique_ptr<Generator>> Generator::Make(const std::string& server,
                                                           const client::ClientOptions& options, const Mix& mix,
                                                           uint64_t seed) {
  std::unique_ptr<Generator> made(new Generator);
  std::vector<TenantSpec> tenants = mix.tenants;
  if (tenants.empty()) tenants.emplace_back();
  for (const TenantSpec& spec : tenants) {
    auto tenant = Tenant::Connect(server, options, spec);
    if (!tenant.ok()) {
      return spec.name.empty() ? tenant.status() : Annotate(tenant.status(), absl::StrCat("tenant ", spec.name));
    }
    made->tenants_.push_back(*std::move(tenant));
  }
  for (const ClassSpec& spec : mix.classes) {
    const auto tenant = std::find_if(made->tenants_.begin(), made->tenants_.end(), [&](const auto& each) {
      return spec.tenant.empty() || each->spec.name == spec.tenant;
    });
    auto requests = Requests::Make(*(*tenant)->client, spec, options.device, seed);
    if (!requests.ok()) return Annotate(requests.status(), absl::StrCat(spec.where, ": class ", spec.name));
    made->senders_.push_back(
        std::make_unique<Sender>(spec, tenant->get(), *std::move(requests), seed, made->answers_.get()));
    ++seed;  // two classes of one rate have schedules, and values, of their own
  }
  return made;
}

std::vector<ClassResult> Generator::Run(const Step& step) {
  const PunctualThread punctual;
  const Clock::time_point begin = Clock::now();
  const auto now_ns = [&] { return static_cast<uint64_t>((Clock::now() - begin).count()); };
  const auto warm_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(step.warm_up));
  const uint64_t end_ns = warm_ns + static_cast<uint64_t>(absl::ToInt64Nanoseconds(step.length));
  for (const auto& sender : senders_) sender->Begin(step, begin, warm_ns, end_ns);

  uint64_t now = now_ns();
  for (; now < end_ns && !answers_->stopped(); now = now_ns()) {
    uint64_t next = end_ns;
    for (const auto& sender : senders_) next = std::min(next, sender->SendDue());
    now = now_ns();
    if (next > now) answers_->Wait(absl::Nanoseconds(next - now));
  }
  // What was due at the very end, or while this thread did not run.
  const uint64_t patience_ns = now + static_cast<uint64_t>(absl::ToInt64Nanoseconds(step.drain));
  for (const auto& sender : senders_) {
    while (sender->SendDue() == 0 && now_ns() < patience_ns) {
    }
  }
  now = std::min(now, end_ns);
  for (const auto& sender : senders_) sender->GiveUp(now);
  if (!answers_->WaitForAll(step.drain)) {
    for (const auto& sender : senders_) sender->Cancel();
    answers_->WaitForAll(absl::InfiniteDuration());
  }
  std::vector<ClassResult> results;
  for (const auto& sender : senders_) {
    results.push_back(sender->TakeResult());
    results.back().seconds = static_cast<double>(now - std::min(now, warm_ns)) / 1e9;
  }
  return results;
}

}  // namespace kiln::load
