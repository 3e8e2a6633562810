#include "server/capture/capture.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace kiln::server {
namespace {

// Before each entry, its length.
constexpr uint64_t kLengthBytes = 5;
// What the mark of the end takes, and more.
constexpr uint64_t kEndBytes = 64;

std::string Text(absl::string_view text) { return std::string(text); }

}  // namespace

absl::StatusOr<std::shared_ptr<Capture>> Capture::Create(const std::string& path, const Limits& limits,
                                                         const v1::CaptureHeader& header,
                                                         std::shared_ptr<spdlog::logger> log) {
  auto writer = capture::Writer::Create(path, header, limits.file_bytes);
  if (!writer.ok()) return writer.status();
  log->info("event=capturing file={} max_bytes={}", path, limits.file_bytes);
  return std::shared_ptr<Capture>(new Capture(*std::move(writer), limits, std::move(log)));
}

Capture::Capture(std::unique_ptr<capture::Writer> writer, const Limits& limits, std::shared_ptr<spdlog::logger> log)
    : limits_(limits), log_(std::move(log)), writer_(std::move(writer)), bytes_(writer_->bytes()), thread_([this] {
        WriteUntilStopped();
      }) {}

Capture::~Capture() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    held_ = false;
  }
  thread_.join();
  absl::MutexLock lock(&mutex_);
  writer_->Finish(/*full=*/left_out_ > 0);
  log_->info("event=capture_finished bytes={} calls={} callers_left_out={}", writer_->bytes(), calls_, left_out_);
}

Capture::Call Capture::Begin(const std::string& caller, const std::string& method, absl::string_view session_token) {
  v1::CaptureEntry entry;
  entry.mutable_begin()->set_method(method);
  absl::MutexLock lock(&mutex_);
  const auto [found, is_new] = callers_.try_emplace(caller);
  Caller& its = found->second;
  if (is_new && (closed_ || failed_)) {
    callers_.erase(found);
    return {};
  }
  if (!its.on()) return {};
  entry.mutable_begin()->set_call(calls_ + 1);
  entry.mutable_begin()->set_session(NumberOf(session_token));
  const uint64_t bytes = entry.ByteSizeLong() + kLengthBytes;
  if (is_new) its.name_ = caller;
  if (const absl::string_view full = Add(its, std::move(entry), bytes); !full.empty()) {
    LeaveOut(caller, full);
    if (is_new) {
      closed_ = true;
      callers_.erase(found);
    } else {
      its.on_ = false;
    }
    return {};
  }
  return {++calls_, &its};
}

void Capture::Received(const Call& call, std::string message) {
  v1::CaptureEntry entry;
  entry.mutable_received()->set_call(call.number);
  entry.mutable_received()->set_message(std::move(message));
  Offer(call, std::move(entry));
}

void Capture::Sent(const Call& call, std::string message) {
  v1::CaptureEntry entry;
  entry.mutable_sent()->set_call(call.number);
  entry.mutable_sent()->set_message(std::move(message));
  Offer(call, std::move(entry));
}

void Capture::End(const Call& call, const grpc::Status& status) {
  v1::CaptureEntry entry;
  entry.mutable_end()->set_call(call.number);
  entry.mutable_end()->set_status(status.error_code());
  entry.mutable_end()->set_details(status.error_details());
  Offer(call, std::move(entry));
}

uint64_t Capture::SessionNumber(absl::string_view token) const {
  absl::MutexLock lock(&mutex_);
  return NumberOf(token);
}

uint64_t Capture::NumberOf(absl::string_view token) const {
  if (token.empty()) return 0;
  const auto found = sessions_.find(token);
  return found == sessions_.end() ? capture::kNoSuchSession : found->second;
}

uint64_t Capture::SessionOpened(absl::string_view token) {
  absl::MutexLock lock(&mutex_);
  if (failed_) return capture::kNoSuchSession;
  const auto [found, added] = sessions_.try_emplace(std::string(token), last_session_ + 1);
  if (added) ++last_session_;  // else it was resumed
  return found->second;
}

void Capture::SessionClosed(absl::string_view token) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(token);
}

uint64_t Capture::left_out() const {
  absl::MutexLock lock(&mutex_);
  return left_out_;
}

void Capture::Flush() {
  absl::MutexLock lock(&mutex_);
  const auto written = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return waiting_bytes_ == 0 || failed_; };
  mutex_.Await(absl::Condition(&written));
}

void Capture::Hold(bool hold) {
  absl::MutexLock lock(&mutex_);
  held_ = hold;
}

void Capture::Offer(const Call& call, v1::CaptureEntry entry) {
  if (!call.on()) return;
  const uint64_t bytes = entry.ByteSizeLong() + kLengthBytes;
  absl::MutexLock lock(&mutex_);
  if (!call.on()) return;
  const absl::string_view full = Add(*call.caller, std::move(entry), bytes);
  if (full.empty()) return;
  call.caller->on_ = false;
  LeaveOut(call.caller->name_, full);
}

absl::string_view Capture::Add(Caller& caller, v1::CaptureEntry entry, uint64_t bytes) {
  // What it would have is no more than what would be left.
  if (bytes > capture::kMaxEntryBytes || caller.bytes_ + bytes_ + 2 * bytes + kEndBytes > limits_.file_bytes)
    return "its share of the file is full";
  if (waiting_bytes_ > 0 && caller.waiting_ + waiting_bytes_ + 2 * bytes > limits_.queue_bytes)
    return "it sends faster than the file is written";
  caller.bytes_ += bytes;
  caller.waiting_ += bytes;
  bytes_ += bytes;
  waiting_bytes_ += bytes;
  waiting_.push_back({std::move(entry), bytes, &caller});
  return "";
}

void Capture::LeaveOut(absl::string_view caller, absl::string_view why) {
  ++left_out_;
  log_->warn(
      "event=capture_full caller={} reason=\"{}\" bytes={} calls={} message=\"its calls are left out from here\"",
      Text(caller), Text(why), bytes_, calls_);
}

void Capture::WriteUntilStopped() {
  const auto to_do = [this]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return (!held_ && !waiting_.empty()) || stopping_; };
  for (;;) {
    std::deque<Waiting> batch;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&to_do));
      if (waiting_.empty()) return;  // it stops
      batch.swap(waiting_);
    }
    for (; !batch.empty(); batch.pop_front()) {
      const Waiting& next = batch.front();
      const bool written = writer_->Add(next.entry);
      absl::MutexLock lock(&mutex_);
      next.caller->waiting_ -= next.bytes;
      waiting_bytes_ -= next.bytes;
      if (!written) return Fail();
    }
  }
}

// What is in the file can be played; nothing more comes.
void Capture::Fail() {
  log_->error("event=capture_failed calls={} reason=\"{}\"", calls_,
              writer_->error().ok() ? "the file is full" : Text(writer_->error().message()));
  failed_ = true;
  for (auto& [name, caller] : callers_) caller.on_ = false;
  waiting_.clear();
  sessions_.clear();
}

}  // namespace kiln::server
