// A copy between devices, and what needs it, run while another device computes what does
// not: shown by order, not by time. The computation's run is held at its end until that of
// what needs the copy has ended; were there any waiting between them, neither would end.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/graph/graph_text.h"
#include "runtime/exec/task_run.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/multi_engine.h"

namespace kiln::testing {
namespace {

using runtime::hal::BufferSlice;

// a (8, 4) and b (4194304,) are on D0: b doubled there, a copied to D1 and 1 added there.
// Of b there is so much that its kernel runs on a thread of D0's, not on the caller's.
constexpr char kCopyBeside[] = R"(
  0 CONST [] weakint 8
  1 CONST [] weakint 4
  2 STACK [0, 1]
  3 PARAM [2] slot=0 dtype=float32 device=("D0")
  4 CONST [] weakint 4194304
  5 STACK [4]
  6 PARAM [5] slot=1 dtype=float32 device=("D0")
  7 ADD [6, 6]
  8 COPY [3] load device=("D1")
  9 CONST [] float32 1.0
  10 ADD [8, 9]
  11 TUPLE [7, 10]
)";

// Holds D0's run until D1's has ended.
class Holder : public runtime::RuntimeObserver {
 public:
  void OnRun(const runtime::RunRecord& record) override {
    if (record.device == "D1") {
      copied_.Notify();
    } else {
      overlapped_ = copied_.WaitForNotificationWithTimeout(absl::Minutes(1));
    }
  }
  bool overlapped() const { return overlapped_; }

 private:
  absl::Notification copied_;
  bool overlapped_ = false;
};

TEST(MultiOverlap, ACopyAndWhatNeedsItRunWhileAnotherDeviceComputes) {
  MultiEngine engine(2);
  const auto graph = ParseGraph(kCopyBeside);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto message = engine.Compile(*graph, ExactOptions());
  ASSERT_TRUE(message.ok()) << message.status();
  const auto program = engine.Load(*message);
  ASSERT_TRUE(program.ok()) << program.status();

  std::vector<BufferSlice> shares;
  for (const uint64_t floats : {uint64_t{32}, uint64_t{4194304}}) {
    auto buffer = engine.devices()[0]->allocator().Allocate(4 * floats, runtime::hal::MemoryUse::kProgram);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    const std::vector<float> threes(floats, 3);
    std::memcpy((*buffer)->host_data(), threes.data(), 4 * floats);
    shares.push_back(BufferSlice::Whole(*std::move(buffer)));
  }
  Holder holder;
  absl::StatusOr<runtime::TaskRunResult> ran;
  absl::Notification done;
  runtime::TaskRun::Start(*program, shares, {}, runtime::Executor(&holder), &engine.collectives(),
                          [&](absl::StatusOr<runtime::TaskRunResult> result) {
                            ran = std::move(result);
                            done.Notify();
                          });
  done.WaitForNotification();
  ASSERT_TRUE(ran.ok()) << ran.status();
  ASSERT_EQ(ran->results.size(), 2u);
  const auto* doubled = static_cast<const float*>(ran->results[0].host_data());
  const auto* copied = static_cast<const float*>(ran->results[1].host_data());
  EXPECT_EQ(doubled[0], 6);
  EXPECT_EQ(doubled[4194303], 6);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(copied[i], 4) << i;
  EXPECT_TRUE(holder.overlapped()) << "the copy waited for what does not concern it";
}

}  // namespace
}  // namespace kiln::testing
