#include "server/services/gate.h"

namespace kiln::server {

// The count rises before the flag is read, and Close sets the flag before the
// count is read: so a call that WaitEmpty does not see sees the flag.
bool Gate::Enter() {
  inside_.fetch_add(1);
  if (!closed_.load()) return true;
  refused_.fetch_add(1, std::memory_order_relaxed);
  Leave();
  return false;
}

void Gate::Leave() {
  if (inside_.fetch_sub(1) == 1 && closed_.load()) absl::MutexLock wake(&mutex_);
}

void Gate::Close() { closed_.store(true); }

bool Gate::WaitEmpty(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(this, &Gate::Empty), deadline);
}

}  // namespace kiln::server
