#include "server/logs/line_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "server/logs/json_line.h"

namespace kiln::server {
namespace {

// How long lines are gathered: waking a thread costs a call more than its line does.
constexpr absl::Duration kGather = absl::Milliseconds(50);
// Of most_bytes, what is too much to gather on.
constexpr size_t kParts = 16;

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
  bell_.Ring();
  thread_.join();
  close(file_);
}

void LineLog::Offer(std::string line) {
  const size_t bytes = line.size();
  Offer(Line{bytes, std::move(line), nullptr});
}

void LineLog::Offer(size_t bytes, MakeFn make) { Offer(Line{bytes, "", std::move(make)}); }

void LineLog::Offer(Line line) {
  {
    absl::MutexLock lock(&mutex_);
    if (bytes_ + line.bytes > most_bytes_) {
      ++lost_;
      return;
    }
    const bool first = waiting_.empty();
    const size_t before = bytes_, enough = most_bytes_ / kParts;
    bytes_ += line.bytes;
    waiting_.push_back(std::move(line));
    if (bytes_ >= enough && before < enough)
      hurry_ = true;
    else if (!first)
      return;
  }
  bell_.Ring();
}

void LineLog::Hurry() {
  {
    absl::MutexLock lock(&mutex_);
    hurry_ = true;
  }
  bell_.Ring();
}

void LineLog::Reopen() {
  {
    absl::MutexLock lock(&mutex_);
    reopen_ = true;
  }
  Hurry();
}

uint64_t LineLog::lost() const {
  absl::MutexLock lock(&mutex_);
  return lost_;
}

void LineLog::Flush() {
  Hurry();
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &LineLog::IsDone));
}

void LineLog::Hold(bool hold) {
  {
    absl::MutexLock lock(&mutex_);
    held_ = hold;
  }
  Hurry();
}

size_t LineLog::Write(absl::string_view text) {
  // What a full disk cut off ends here.
  if (inside_ && write(file_, "\n", 1) == 1) inside_ = false;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(file_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<size_t>(written);
    inside_ = text[done - 1] != '\n';
  }
  return done;
}

void LineLog::WaitForWork() {
  const auto at_once = [this] {
    absl::MutexLock lock(&mutex_);
    return hurry_ || stopping_;
  };
  if (at_once()) return;
  bell_.Wait(absl::InfiniteDuration());
  if (!at_once()) bell_.Wait(kGather);
}

void LineLog::WriteUntilStopped() {
  for (;;) {
    WaitForWork();
    std::vector<Line> taken;
    bool reopen = false;
    uint64_t to_tell = 0;
    {
      absl::MutexLock lock(&mutex_);
      hurry_ = false;
      if (held_ && !stopping_) continue;
      if (stopping_ && waiting_.empty()) return;
      reopen = std::exchange(reopen_, false);
      taken.swap(waiting_);
      to_tell = lost_ - told_;
      writing_ = true;
    }
    if (reopen) {
      if (const int file = OpenToAppend(path_); file >= 0) close(std::exchange(file_, file));
    }
    if (to_tell > 0) {
      const std::string told = JsonLine(absl::Now()).Add("event", "lines_lost").Add("lines", to_tell).Take();
      if (Write(told) < told.size()) to_tell = 0;
    }
    std::string lines;
    size_t taken_bytes = 0;
    for (Line& line : taken) {
      lines += line.make == nullptr ? line.text : line.make();
      taken_bytes += line.bytes;
      line = {};
    }
    const size_t done = Write(lines);
    const auto lost = std::count(lines.begin() + static_cast<ptrdiff_t>(done), lines.end(), '\n');
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    bytes_ -= taken_bytes;
    lost_ += static_cast<uint64_t>(lost);
    told_ += to_tell;
  }
}

}  // namespace kiln::server
