#include "server/services/requests/gate.h"

#include <algorithm>

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

void Gate::Watch(const std::shared_ptr<Watcher>& watcher) {
  {
    absl::MutexLock lock(&watchers_mutex_);
    if (!closed_.load()) {
      watchers_.push_back(watcher);
      if (watchers_.size() < tidy_at_) return;
      const auto gone = [](const std::weak_ptr<Watcher>& w) { return w.expired(); };
      watchers_.erase(std::remove_if(watchers_.begin(), watchers_.end(), gone), watchers_.end());
      tidy_at_ = std::max<size_t>(64, 2 * watchers_.size());
      return;
    }
  }
  watcher->OnClosing();
}

void Gate::Close() {
  std::vector<std::weak_ptr<Watcher>> watchers;
  {
    absl::MutexLock lock(&watchers_mutex_);
    closed_.store(true);
    watchers.swap(watchers_);
  }
  for (const auto& watcher : watchers) {
    if (const auto here = watcher.lock()) here->OnClosing();
  }
}

bool Gate::WaitEmpty(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(this, &Gate::Empty), deadline);
}

}  // namespace kiln::server
