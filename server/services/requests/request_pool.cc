#include "server/services/requests/request_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "server/engine/memory/over_limit.h"

namespace kiln::server {
namespace {

// One caller may have one part in so many of what may wait.
constexpr uint64_t kPartsOfAll = 4;
// As long as a few large graphs take.
constexpr uint32_t kRetryMillis = 100;

absl::Status TooMuchWaits(absl::string_view limit, uint64_t limit_value, uint64_t used) {
  return WithDetail(OverLimit(limit, limit_value, used,
                              absl::StrCat("too many large requests wait to be read: ", limit, " ", used, ", at most ",
                                           limit_value, "; send it again later, or fewer at once")),
                    [](v1::ErrorDetail& detail) { detail.set_retry_after_ms(kRetryMillis); });
}

// Whether `waiting` and `more` come to more than `most`; a first one always may wait.
bool TooMuch(uint64_t waiting, uint64_t more, uint64_t most) {
  return waiting != 0 && more > most - std::min(most, waiting);
}

}  // namespace

RequestPool::RequestPool(uint32_t threads, Limits limits) : limits_(limits) {
  KILN_CHECK(threads > 0);
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

RequestPool::~RequestPool() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status RequestPool::Offer(const std::string& caller, uint64_t bytes, Job job) {
  absl::MutexLock lock(&mutex_);
  const auto found = callers_.find(caller);
  const uint64_t its_requests = found == callers_.end() ? 0 : found->second.requests;
  const uint64_t its_bytes = found == callers_.end() ? 0 : found->second.bytes;
  const struct {
    const char* limit;
    uint64_t waiting, more, most;
  } rows[] = {
      {"waiting requests of a caller", its_requests, 1, limits_.requests / kPartsOfAll},
      {"bytes of waiting requests of a caller", its_bytes, bytes, limits_.bytes / kPartsOfAll},
      {"waiting requests", requests_, 1, limits_.requests},
      {"bytes of waiting requests", bytes_, bytes, limits_.bytes},
  };
  for (const auto& row : rows) {
    if (TooMuch(row.waiting, row.more, row.most)) return TooMuchWaits(row.limit, row.most, row.waiting + row.more);
  }
  Add(caller, {std::move(job), 1, bytes});
  return absl::OkStatus();
}

void RequestPool::Push(const std::string& caller, Job job) {
  absl::MutexLock lock(&mutex_);
  Add(caller, {std::move(job), 0, 0});
}

size_t RequestPool::waiting() const {
  absl::MutexLock lock(&mutex_);
  size_t jobs = 0;
  for (const auto& [name, caller] : callers_) jobs += caller.waiting.size();
  return jobs;
}

void RequestPool::Add(const std::string& caller, Waiting waiting) {
  Caller& its = callers_[caller];
  if (its.waiting.empty()) turns_.push_back(caller);
  requests_ += waiting.requests;
  bytes_ += waiting.bytes;
  its.requests += waiting.requests;
  its.bytes += waiting.bytes;
  its.waiting.push_back(std::move(waiting));
}

RequestPool::Job RequestPool::Next() {
  const auto caller = callers_.find(turns_.front());
  Caller& its = caller->second;
  Waiting next = std::move(its.waiting.front());
  its.waiting.pop_front();
  requests_ -= next.requests;
  bytes_ -= next.bytes;
  its.requests -= next.requests;
  its.bytes -= next.bytes;
  if (its.waiting.empty()) {
    callers_.erase(caller);
  } else {
    turns_.push_back(turns_.front());
  }
  turns_.pop_front();
  return std::move(next.job);
}

void RequestPool::Work() {
  for (;;) {
    Job job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &RequestPool::HasJobOrEnds));
      if (turns_.empty()) return;
      job = Next();
    }
    job();
  }
}

}  // namespace kiln::server
