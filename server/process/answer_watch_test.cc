#include "server/process/answer_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace kiln::server {
namespace {

// A server that answers as its script says, and then always; and what was said of it.
class Script {
 public:
  explicit Script(std::string answers) : answers_(std::move(answers)) {}

  bool Answer(absl::Duration patience) {
    EXPECT_EQ(patience, absl::Milliseconds(1));
    absl::MutexLock lock(&mutex_);
    return asked_ >= answers_.size() ? (++asked_, true) : answers_[asked_++] == '+';
  }
  void Note(bool dead) {
    absl::MutexLock lock(&mutex_);
    said_.emplace_back(asked_, dead);
  }
  // By the question after which it was said.
  std::vector<std::pair<size_t, bool>> SaidInTheEnd() {
    const auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return asked_ > answers_.size(); };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&done));
    return said_;
  }

 private:
  const std::string answers_;
  absl::Mutex mutex_;
  size_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<size_t, bool>> said_ ABSL_GUARDED_BY(mutex_);
};

std::vector<std::pair<size_t, bool>> SaidOf(const std::string& answers) {
  Script script(answers);
  AnswerWatch watch([&](absl::Duration patience) { return script.Answer(patience); },
                    [&](bool dead) { script.Note(dead); }, absl::Milliseconds(4));
  auto said = script.SaidInTheEnd();
  EXPECT_FALSE(watch.dead());
  return said;
}

TEST(AnswerWatch, ThreeFailuresInARowAreADeadServer) {
  using Said = std::vector<std::pair<size_t, bool>>;
  EXPECT_EQ(SaidOf("++++"), Said());
  EXPECT_EQ(SaidOf("--+--+"), Said());
  EXPECT_EQ(SaidOf("+-----+"), (Said{{4, true}, {7, false}}));
  EXPECT_EQ(SaidOf("---+---+"), (Said{{3, true}, {4, false}, {7, true}, {8, false}}));
}

TEST(AnswerWatch, EndsAtOnce) {
  const absl::Time begin = SteadyNow();
  {
    AnswerWatch watch([](absl::Duration) { return true; }, [](bool) {}, absl::Hours(1));
    EXPECT_FALSE(watch.dead());
  }
  EXPECT_LT(SteadyNow() - begin, absl::Minutes(1));
}

}  // namespace
}  // namespace kiln::server
