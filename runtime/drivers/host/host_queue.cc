#include "runtime/drivers/host/host_queue.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "runtime/drivers/host/fill_bytes.h"

namespace kiln::runtime::host {
namespace {

using hal::BufferSlice;
using hal::DoneCallback;
using hal::Work;

// What even empty work is taken to cost, so that an endless stream of it cannot
// keep a submitting thread.
constexpr uint64_t kMinNs = 500;

// After work of this length the queue's own thread offers its core to whoever waits for
// one: on few cores they would wait for the kernel's next tick, which is milliseconds.
constexpr uint64_t kLongNs = 3'000;

// A transfer's estimate: 8 bytes a nanosecond.
uint64_t TransferNs(uint64_t bytes) { return bytes / 8; }

void CopyBytes(void* to, const void* from, uint64_t bytes) {
  if (bytes != 0) std::memmove(to, from, bytes);
}

}  // namespace

HostQueue::HostQueue(const hal::Device* device, uint64_t inline_limit_ns, OnEnd done, OnEnd after)
    : device_(device),
      inline_limit_ns_(inline_limit_ns),
      done_(std::move(done)),
      after_(std::move(after)),
      runners_([this](Runner& self, bool first) { return WorkOn(self, first); }) {}

HostQueue::~HostQueue() {
  // Too long for any submitting thread, so it runs on the queue's, after all
  // else.
  Submit([this] { stop_ = true; }, ~uint64_t{0});
}

void HostQueue::Submit(Work* work, uint64_t estimate_ns) {
  work->link.estimate_ns = std::max(estimate_ns, kMinNs);
  depth_.fetch_add(1, std::memory_order_relaxed);
  Work* head = inbox_.load(std::memory_order_relaxed);
  for (;;) {
    work->link.next = head;
    Work* const next = head == nullptr ? &mark_ : work;
    if (inbox_.compare_exchange_weak(head, next, std::memory_order_acq_rel, std::memory_order_relaxed)) break;
  }
  if (head != nullptr) return;  // the owner will find it
  left_ = work;
  Own(/*self=*/nullptr);
}

bool HostQueue::Own(const Runner* self) {
  uint64_t left_ns = inline_limit_ns_;
  for (;;) {
    while (left_ != nullptr) {
      Work* const work = left_;
      const uint64_t estimate_ns = work->link.estimate_ns;
      if (self == nullptr && estimate_ns > left_ns) {
        HandOver();
        return true;
      }
      left_ns -= std::min(left_ns, estimate_ns);
      left_ = work->link.next;
      work->Run();  // gone after this
      depth_.fetch_sub(1, std::memory_order_relaxed);
      if (self != nullptr && self->is_guest()) return false;
      if (after_) after_(runner());
      if (self == nullptr) continue;
      if (estimate_ns >= kLongNs) sched_yield();
    }
    Work* expected = &mark_;
    if (inbox_.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel)) return true;
    // The inbox has the newest first.
    Work* newest = inbox_.exchange(&mark_, std::memory_order_acq_rel);
    while (newest != &mark_) {
      Work* const older = newest->link.next;
      newest->link.next = left_;
      left_ = newest;
      newest = older;
    }
  }
}

void HostQueue::HandOver() {
  handed_over_.store(std::exchange(left_, nullptr), std::memory_order_release);
  handed_over_.notify_one();
}

bool HostQueue::WorkOn(const Runner& self, bool first) {
  // All but the first begin as the owner, in the place of one that has paused.
  bool own = first || Own(&self);
  while (own && !stop_) {
    handed_over_.wait(nullptr, std::memory_order_acquire);
    Work* const list = handed_over_.exchange(nullptr, std::memory_order_acquire);
    if (list == nullptr) continue;
    left_ = list;
    own = Own(&self);
  }
  if (!own && done_) done_(self.number());
  return own;
}

Work* HostQueue::Continuation() {
  Runner* const self = runners_.Here();
  return done_ && self != nullptr && runners_.MayPause(*self) ? self : nullptr;
}

void HostQueue::Pause() { runners_.Pause(*runners_.Here()); }

void HostQueue::Copy(BufferSlice from, BufferSlice to, DoneCallback done) {
  if (absl::Status status = hal::CheckCopy(device_, from, to); !status.ok()) return done(std::move(status));
  const uint64_t estimate_ns = TransferNs(from.bytes);
  Submit(
      [from = std::move(from), to = std::move(to), done = std::move(done)]() mutable {
        to.buffer->Changed();
        CopyBytes(to.host_data(), from.host_data(), from.bytes);
        done(absl::OkStatus());
      },
      estimate_ns);
}

void HostQueue::Write(const void* from, BufferSlice to, DoneCallback done) {
  if (absl::Status status = hal::CheckOn(device_, to); !status.ok()) return done(std::move(status));
  const uint64_t estimate_ns = TransferNs(to.bytes);
  Submit(
      [from, to = std::move(to), done = std::move(done)]() mutable {
        to.buffer->Changed();
        CopyBytes(to.host_data(), from, to.bytes);
        done(absl::OkStatus());
      },
      estimate_ns);
}

void HostQueue::WritePieces(std::vector<absl::string_view> pieces, BufferSlice to, DoneCallback done) {
  if (absl::Status status = hal::CheckPieces(device_, pieces, to); !status.ok()) return done(std::move(status));
  const uint64_t estimate_ns = TransferNs(to.bytes);
  Submit(
      [pieces = std::move(pieces), to = std::move(to), done = std::move(done)]() mutable {
        to.buffer->Changed();
        auto* end = static_cast<char*>(to.host_data());
        for (const absl::string_view piece : pieces) {
          CopyBytes(end, piece.data(), piece.size());
          end += piece.size();
        }
        done(absl::OkStatus());
      },
      estimate_ns);
}

void HostQueue::Read(BufferSlice from, void* to, DoneCallback done) {
  if (absl::Status status = hal::CheckOn(device_, from); !status.ok()) return done(std::move(status));
  const uint64_t estimate_ns = TransferNs(from.bytes);
  Submit(
      [from = std::move(from), to, done = std::move(done)]() mutable {
        CopyBytes(to, from.host_data(), from.bytes);
        from = BufferSlice();
        done(absl::OkStatus());
      },
      estimate_ns);
}

void HostQueue::Fill(BufferSlice to, absl::string_view pattern, DoneCallback done) {
  if (absl::Status status = hal::CheckOn(device_, to); !status.ok()) return done(std::move(status));
  const uint64_t estimate_ns = TransferNs(to.bytes);
  Submit(
      [to = std::move(to), pattern = std::string(pattern), done = std::move(done)]() mutable {
        to.buffer->Changed();
        FillBytes(static_cast<char*>(to.host_data()), to.bytes, pattern);
        done(absl::OkStatus());
      },
      estimate_ns);
}

}  // namespace kiln::runtime::host
