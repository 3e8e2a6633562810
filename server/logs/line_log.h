// A log that nobody waits for: lines go into a bounded queue, and one thread writes them.
//
// Whoever has a line never waits for the disk, nor wakes the thread for each one: it writes at most every 50 ms, unless
// much waits. If the queue is full the line is lost, counted, and the file is told how many were lost there as soon as
// it can be. What is written at once ends with a line's end.
#ifndef KILN_SERVER_LOGS_LINE_LOG_H_
#define KILN_SERVER_LOGS_LINE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"

namespace kiln::server {

// Safe from any thread.
class LineLog {
 public:
  // What may wait.
  static constexpr size_t kMaxBytes = 4 << 20;

  // Appends to the file at `path`, which is made for this user alone if it is not there. BAD_ARGUMENT, `field` of the
  // configuration, if it cannot be opened.
  static absl::StatusOr<std::unique_ptr<LineLog>> Open(std::string path, absl::string_view field,
                                                       size_t most_bytes = kMaxBytes);
  // Writes what waits.
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  // One line, with its end. Never blocks for long.
  void Offer(std::string line);
  // The same of a line that `make` returns: called once, or never, by the thread that writes, to which it leaves the
  // work. Until then it counts as so many bytes.
  using MakeFn = absl::AnyInvocable<std::string()>;
  void Offer(size_t bytes, MakeFn make);

  // Opens the file anew before the next line: its name may stand for another one now (logrotate). If that fails the one
  // before stays.
  void Reopen();

  // Lines that are not whole in the file, and will not be: there was no room for them, or the disk had none.
  uint64_t lost() const;
  // Waits until all offered before is written or lost. For tests and the end of a server.
  void Flush();

  // For tests: from now on, until it is called with false, nothing is written.
  void Hold(bool hold);

 private:
  struct Line {
    size_t bytes = 0;
    std::string text;
    MakeFn make;  // makes the text, if not null
  };

  LineLog(std::string path, int file, size_t most_bytes);
  void Offer(Line line);

  void WriteUntilStopped();
  // Returns when something is to be done.
  void WaitForWork();
  // How much of it is in the file.
  size_t Write(absl::string_view text);
  void Hurry() ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsDone() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return waiting_.empty() && !writing_ && !reopen_; }

  const std::string path_;
  const size_t most_bytes_;
  int file_;             // the thread's
  bool inside_ = false;  // the thread's: the last line has no end
  mutable absl::Mutex mutex_;
  std::vector<Line> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of what waits or is being written
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t told_ ABSL_GUARDED_BY(mutex_) = 0;  // of these
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reopen_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Bell bell_;  // of the thread
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_LOGS_LINE_LOG_H_
