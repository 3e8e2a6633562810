#include "runtime/drivers/host/runners.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "base/check.h"

namespace kiln::runtime::host {
namespace {

thread_local Runner* here = nullptr;

}  // namespace

void Runner::Run() { runners_->Lend(*here, *this); }

Runners::Runners(Main main) : main_(std::move(main)) {
  absl::MutexLock lock(&mutex_);
  Start();
}

Runners::~Runners() {
  // The one that works may have yet to see that all is done, and starts none.
  std::vector<std::unique_ptr<Runner>> all;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    all.swap(all_);
  }
  for (const auto& runner : all) runner->thread_.join();
}

Runner* Runners::Here() const { return here != nullptr && here->runners_ == this ? here : nullptr; }

void Runners::Start() {
  auto runner = std::unique_ptr<Runner>(new Runner(this, all_.size()));
  Runner& self = *runner;
  self.thread_ = std::thread([this, &self] { ThreadMain(self); });
  pthread_setname_np(self.thread_.native_handle(), "kiln-queue");
  if (self.number_ != 0) idle_.push_back(&self);
  all_.push_back(std::move(runner));
}

bool Runners::MayPause(const Runner& self) {
  absl::MutexLock lock(&mutex_);
  if (self.is_guest() || !idle_.empty()) return true;
  if (all_.size() == kMax) return false;
  try {
    Start();
  } catch (const std::system_error&) {  // the system has no thread left: then what runs goes on
    return false;
  }
  return true;
}

void Runners::PassOn(const Runner& next) { working_.store(next.number_, std::memory_order_relaxed); }

bool Runners::AwaitTurn(const Runner& self) {
  const auto come = [this, &self] {
    mutex_.AssertReaderHeld();
    return ended_ || working() == self.number_;
  };
  mutex_.Await(absl::Condition(&come));
  return working() == self.number_;
}

void Runners::Pause(Runner& self) {
  absl::MutexLock lock(&mutex_);
  Runner* next = std::exchange(self.host_, nullptr);
  if (next == nullptr) {
    KILN_CHECK(!idle_.empty());
    next = idle_.back();
    idle_.pop_back();
  }
  PassOn(*next);
  KILN_CHECK(AwaitTurn(self));
}

void Runners::Lend(Runner& host, Runner& guest) {
  absl::MutexLock lock(&mutex_);
  guest.host_ = &host;
  PassOn(guest);
  KILN_CHECK(AwaitTurn(host));
}

void Runners::GiveBack(Runner& guest) {
  absl::MutexLock lock(&mutex_);
  PassOn(*std::exchange(guest.host_, nullptr));
  idle_.push_back(&guest);
}

void Runners::ThreadMain(Runner& self) {
  here = &self;
  for (bool first = self.number_ == 0;; first = false) {
    if (!first) {
      absl::MutexLock lock(&mutex_);
      if (!AwaitTurn(self)) return;
    }
    if (main_(self, first)) return;
    GiveBack(self);
  }
}

}  // namespace kiln::runtime::host
