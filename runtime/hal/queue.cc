#include "runtime/hal/queue.h"

#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "base/error.h"

namespace kiln::runtime::hal {
namespace {

class FunctionWork final : public Work {
 public:
  explicit FunctionWork(absl::AnyInvocable<void()> function) : function_(std::move(function)) {}
  void Run() override {
    std::unique_ptr<FunctionWork> self(this);
    function_();
  }

 private:
  absl::AnyInvocable<void()> function_;
};

}  // namespace

void Queue::Submit(absl::AnyInvocable<void()> function, uint64_t estimate_ns) {
  Submit(new FunctionWork(std::move(function)), estimate_ns);
}

absl::Status Queue::Drain(absl::Time deadline) {
  auto reached = std::make_shared<absl::Notification>();  // outlives a wait given up
  Submit([reached] { reached->Notify(); }, 0);
  if (reached->WaitForNotificationWithDeadline(deadline)) return absl::OkStatus();
  return MakeError(v1::DEADLINE_PASSED, "the queue was not idle by the deadline");
}

}  // namespace kiln::runtime::hal
