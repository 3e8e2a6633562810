#include "server/record/recorder.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace kiln::server {

absl::StatusOr<std::shared_ptr<Recorder>> Recorder::Create(const std::string& path, uint64_t max_bytes,
                                                           const v1::RecordHeader& header,
                                                           std::shared_ptr<spdlog::logger> log) {
  auto writer = record::Writer::Create(path, header, max_bytes);
  if (!writer.ok()) return writer.status();
  log->info("event=recording file={} max_bytes={}", path, max_bytes);
  return std::shared_ptr<Recorder>(new Recorder(*std::move(writer), std::move(log)));
}

uint64_t Recorder::Begin(const std::string& method, absl::string_view session_token) {
  const uint64_t session = SessionNumber(session_token);
  absl::MutexLock lock(&mutex_);
  v1::Record record;
  record.mutable_begin()->set_call(++calls_);
  record.mutable_begin()->set_method(method);
  record.mutable_begin()->set_session(session);
  Add(record);
  return calls_;
}

void Recorder::Received(uint64_t call, std::string message) {
  v1::Record record;
  record.mutable_received()->set_call(call);
  record.mutable_received()->set_message(std::move(message));
  absl::MutexLock lock(&mutex_);
  Add(record);
}

void Recorder::Sent(uint64_t call, std::string message) {
  v1::Record record;
  record.mutable_sent()->set_call(call);
  record.mutable_sent()->set_message(std::move(message));
  absl::MutexLock lock(&mutex_);
  Add(record);
}

void Recorder::End(uint64_t call, const grpc::Status& status) {
  v1::Record record;
  record.mutable_end()->set_call(call);
  record.mutable_end()->set_status(status.error_code());
  record.mutable_end()->set_details(status.error_details());
  absl::MutexLock lock(&mutex_);
  Add(record);
}

uint64_t Recorder::SessionNumber(absl::string_view token) const {
  if (token.empty()) return 0;
  absl::MutexLock lock(&mutex_);
  const auto found = sessions_.find(token);
  return found == sessions_.end() ? record::kNoSuchSession : found->second;
}

uint64_t Recorder::SessionOpened(absl::string_view token) {
  absl::MutexLock lock(&mutex_);
  if (writer_ == nullptr) return record::kNoSuchSession;
  const auto [found, added] = sessions_.try_emplace(std::string(token), last_session_ + 1);
  if (added) ++last_session_;  // else it was resumed
  return found->second;
}

void Recorder::SessionClosed(absl::string_view token) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(token);
}

void Recorder::Add(const v1::Record& record) {
  if (writer_ == nullptr || writer_->Add(record)) return;
  if (writer_->error().ok()) {
    log_->warn("event=record_full bytes={} calls={}: the server goes on unrecorded", writer_->bytes(), calls_);
  } else {
    log_->error("event=record_failed calls={} reason=\"{}\"", calls_, std::string(writer_->error().message()));
  }
  writer_.reset();
  sessions_.clear();
  on_ = false;
}

}  // namespace kiln::server
