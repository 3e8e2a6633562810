#include "server/logs/line_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "server/logs/json_line.h"

namespace kiln::server {
namespace {

int OpenToAppend(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LineLog>> LineLog::Open(std::string path, absl::string_view field, size_t most_bytes) {
  const int file = OpenToAppend(path);
  if (file < 0) {
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field(std::string(field));
    return MakeError(detail, absl::StrCat(field, ": cannot write ", path, ": ", std::strerror(errno)));
  }
  return std::unique_ptr<LineLog>(new LineLog(std::move(path), file, most_bytes));
}

LineLog::LineLog(std::string path, int file, size_t most_bytes)
    : path_(std::move(path)), most_bytes_(most_bytes), file_(file), thread_([this] { WriteUntilStopped(); }) {
  pthread_setname_np(thread_.native_handle(), "kiln-log");
}

LineLog::~LineLog() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
  close(file_);
}

void LineLog::Offer(std::string line) {
  absl::MutexLock lock(&mutex_);
  if (bytes_ + line.size() > most_bytes_) {
    ++lost_;
    return;
  }
  bytes_ += line.size();
  waiting_.push_back(std::move(line));
}

void LineLog::Reopen() {
  absl::MutexLock lock(&mutex_);
  reopen_ = true;
}

uint64_t LineLog::lost() const {
  absl::MutexLock lock(&mutex_);
  return lost_;
}

void LineLog::Flush() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &LineLog::IsDone));
}

void LineLog::Hold(bool hold) {
  absl::MutexLock lock(&mutex_);
  held_ = hold;
}

bool LineLog::Write(absl::string_view text) {
  // What a full disk cut off ends here.
  if (inside_ && write(file_, "\n", 1) == 1) inside_ = false;
  while (!text.empty()) {
    const ssize_t written = write(file_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    inside_ = text[static_cast<size_t>(written) - 1] != '\n';
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void LineLog::WriteUntilStopped() {
  for (;;) {
    std::vector<std::string> lines;
    bool reopen = false;
    uint64_t to_tell = 0;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &LineLog::HasWork));
      if (stopping_ && waiting_.empty()) return;
      reopen = std::exchange(reopen_, false);
      lines.swap(waiting_);
      to_tell = lost_ - told_;
      writing_ = true;
    }
    if (reopen) {
      if (const int file = OpenToAppend(path_); file >= 0) close(std::exchange(file_, file));
    }
    uint64_t lost = 0;
    if (to_tell > 0 && !Write(JsonLine(absl::Now()).Add("event", "lines_lost").Add("lines", to_tell).Take()))
      to_tell = 0;
    size_t bytes = 0;
    for (const std::string& line : lines) {
      bytes += line.size();
      if (!Write(line)) ++lost;
    }
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    bytes_ -= bytes;
    lost_ += lost;
    told_ += to_tell;
  }
}

}  // namespace kiln::server
