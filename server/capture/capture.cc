#include "server/capture/capture.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace kiln::server {

absl::StatusOr<std::shared_ptr<Capture>> Capture::Create(const std::string& path, uint64_t max_bytes,
                                                         const v1::CaptureHeader& header,
                                                         std::shared_ptr<spdlog::logger> log) {
  auto writer = capture::Writer::Create(path, header, max_bytes);
  if (!writer.ok()) return writer.status();
  log->info("event=capturing file={} max_bytes={}", path, max_bytes);
  return std::shared_ptr<Capture>(new Capture(*std::move(writer), std::move(log)));
}

uint64_t Capture::Begin(const std::string& method, absl::string_view session_token) {
  const uint64_t session = SessionNumber(session_token);
  absl::MutexLock lock(&mutex_);
  v1::CaptureEntry entry;
  entry.mutable_begin()->set_call(++calls_);
  entry.mutable_begin()->set_method(method);
  entry.mutable_begin()->set_session(session);
  Add(entry);
  return calls_;
}

void Capture::Received(uint64_t call, std::string message) {
  v1::CaptureEntry entry;
  entry.mutable_received()->set_call(call);
  entry.mutable_received()->set_message(std::move(message));
  absl::MutexLock lock(&mutex_);
  Add(entry);
}

void Capture::Sent(uint64_t call, std::string message) {
  v1::CaptureEntry entry;
  entry.mutable_sent()->set_call(call);
  entry.mutable_sent()->set_message(std::move(message));
  absl::MutexLock lock(&mutex_);
  Add(entry);
}

void Capture::End(uint64_t call, const grpc::Status& status) {
  v1::CaptureEntry entry;
  entry.mutable_end()->set_call(call);
  entry.mutable_end()->set_status(status.error_code());
  entry.mutable_end()->set_details(status.error_details());
  absl::MutexLock lock(&mutex_);
  Add(entry);
}

uint64_t Capture::SessionNumber(absl::string_view token) const {
  if (token.empty()) return 0;
  absl::MutexLock lock(&mutex_);
  const auto found = sessions_.find(token);
  return found == sessions_.end() ? capture::kNoSuchSession : found->second;
}

uint64_t Capture::SessionOpened(absl::string_view token) {
  absl::MutexLock lock(&mutex_);
  if (writer_ == nullptr) return capture::kNoSuchSession;
  const auto [found, added] = sessions_.try_emplace(std::string(token), last_session_ + 1);
  if (added) ++last_session_;  // else it was resumed
  return found->second;
}

void Capture::SessionClosed(absl::string_view token) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(token);
}

void Capture::Add(const v1::CaptureEntry& entry) {
  if (writer_ == nullptr || writer_->Add(entry)) return;
  if (writer_->error().ok()) {
    log_->warn("event=capture_full bytes={} calls={} message=\"the server goes on without it\"", writer_->bytes(), calls_);
  } else {
    log_->error("event=capture_failed calls={} reason=\"{}\"", calls_, std::string(writer_->error().message()));
  }
  writer_.reset();
  sessions_.clear();
  on_ = false;
}

}  // namespace kiln::server
