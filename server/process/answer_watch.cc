#include "server/process/answer_watch.h"

#include <pthread.h>

#include <utility>

namespace kiln::server {

AnswerWatch::AnswerWatch(std::function<bool(absl::Duration patience)> answers, std::function<void(bool dead)> changed,
                         absl::Duration period) {
  thread_ = std::thread([this, answers = std::move(answers), changed = std::move(changed), period] {
    int failures = 0;
    while (!bell_.Wait(period)) {
      failures = answers(period / 4) ? 0 : failures + 1;
      const bool dead = failures >= kFailures;
      if (dead_.exchange(dead) != dead) changed(dead);
    }
  });
  pthread_setname_np(thread_.native_handle(), "kiln-answers");
}

void AnswerWatch::Stop() {
  bell_.Ring();
  if (thread_.joinable()) thread_.join();
}

}  // namespace kiln::server
