// A sequencer, and steps for it, with a program that is played here: state and x are an int32 each, y is their sum, and
// the next state. Runs end when they are told to.
#ifndef KILN_SERVER_MODELS_SEQUENCES_SEQUENCER_FIXTURE_H_
#define KILN_SERVER_MODELS_SEQUENCES_SEQUENCER_FIXTURE_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/account.h"
#include "base/clock.h"
#include "server/metrics/metrics.h"
#include "server/models/sequences/sequencer.h"

namespace kiln::runtime::null {
class Device;
}

namespace kiln::server {

inline constexpr uint32_t kX = 0, kPool = 1, kFrom = 2, kRowOf = 3, kBatch = 4, kTokens = 5;
inline constexpr uint64_t kPoolBytes = 64;  // of three slots and three, an int32 each, as the allocator rounds it

// What a test of it has, and asks. One tenant's unless its control names an account.
class SequencerFixture {
 protected:
  SequencerFixture();
  ~SequencerFixture();

  struct Asked {
    std::string x;
    absl::StatusOr<ExecuteResult> result = absl::UnknownError("not yet");
    absl::Notification told;
    std::vector<int64_t> shape = {1};

    // "7", or what was wrong.
    std::string text() const;
  };
  struct Running {
    ExecuteRequest request;
    Control control;
    ExecuteCallback done;
  };

  void Open(size_t sequences = 3, size_t rows = 3, absl::Duration idle = absl::Hours(1),
            absl::Duration queue_delay = absl::ZeroDuration());

  Asked& Ask(const std::string& id, int32_t x, bool start = false, bool end = false, const Control& control = {},
             int64_t tokens = 1);

  size_t runs();
  // What the first run was asked with.
  Control FirstControl();
  // Ends the first run, of which the answer is paid for so: with how many rows.
  size_t End(bool well = true, Charge paid = {});
  void WaitForRun();
  uint64_t InMemory();

  const std::unique_ptr<runtime::null::Device> device_;
  Metrics metrics_;
  std::array<Account, 2> accounts_ = {Account("a"), Account("b")};  // outlive what they pay for
  Bell bell_;
  absl::Mutex mutex_;
  std::vector<Running> running_ ABSL_GUARDED_BY(mutex_);
  std::vector<int32_t> pool_;
  double micros_ = 0, micros_of_row_ = 0;                        // that a run takes
  uint64_t result_bytes_ = 0;                                    // that a step's results are said to have
  std::function<void()> then_;                                   // called with the next answer
  std::vector<std::thread::id> ran_on_ ABSL_GUARDED_BY(mutex_);  // of each run, who asked for it
  std::atomic<bool> at_once_{false};                             // runs end as they are asked for
  std::vector<std::unique_ptr<Asked>> asked_;
  SequencerThreads threads_;
  std::shared_ptr<Sequencer> sequencer_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SEQUENCES_SEQUENCER_FIXTURE_H_
