// Whether the server still answers, asked of itself from time to time.
//
// A process can live and serve nobody: its port accepts nothing, or all threads wait for each other. A service manager
// with a watchdog finds that out (server/service_manager.h); where there is none, as in a container, whoever asks
// /healthz should be told, and whoever reads the log.
#ifndef KILN_SERVER_PROCESS_ANSWER_WATCH_H_
#define KILN_SERVER_PROCESS_ANSWER_WATCH_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "base/clock.h"

namespace kiln::server {

class AnswerWatch {
 public:
  // A machine that stands still for a moment is no dead server.
  static constexpr int kFailures = 3;

  // Asks `answers` every `period`, on a thread of its own, until it ends; it may take as long as it is given, a fourth
  // of that. `changed` hears, on the same thread, of each time that dead() has another answer.
  AnswerWatch(std::function<bool(absl::Duration patience)> answers, std::function<void(bool dead)> changed,
              absl::Duration period = absl::Seconds(20));
  ~AnswerWatch() { Stop(); }
  // No question is begun from here on; one that is under way goes on.
  void AskNoMore() { bell_.Ring(); }
  // Ends the thread, waits for a question that is under way, and leaves dead() as it is. Not from two threads.
  void Stop();
  AnswerWatch(const AnswerWatch&) = delete;
  AnswerWatch& operator=(const AnswerWatch&) = delete;

  // There was no answer kFailures times in a row, and none since. Any thread.
  bool dead() const { return dead_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> dead_ = false;
  Bell bell_;  // rings for the end
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_PROCESS_ANSWER_WATCH_H_
