// What compiled models may take, on each CPU that tests name.
#include "tests/bench/models.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "compiler/compile.h"
#include "tests/support/cpu_targets.h"

namespace kiln::bench {
namespace {

// The arena that the memory plan made, and what no plan could do without.
class PlanText : public compiler::CompileObserver {
 public:
  void OnPass(const compiler::PassRecord& record) override {
    if (record.name != "memory plan") return;
    const std::string text = record.text();
    EXPECT_EQ(std::sscanf(text.c_str(), "arena of %lf bytes for %*d buffers, of which %lf", &arena_, &alive_), 2)
        << text;
  }
  double arena() const { return arena_; }
  double alive() const { return alive_; }

 private:
  double arena_ = 0, alive_ = 0;
};

struct Compiled {
  PlanText plan;
  v1::Executable executable;
};

void Compile(const v1::Graph& graph, const testing::CpuModel& cpu, Compiled& compiled) {
  SCOPED_TRACE(cpu.arch);
  auto executable = compiler::Compile(graph, testing::TargetOf(cpu), compiler::Options(), &compiled.plan);
  ASSERT_TRUE(executable.ok()) << executable.status();
  compiled.executable = *std::move(executable);
}

TEST(Models, ResNet50TakesLittleMoreMemoryThanIsAliveAtOnce) {
  for (const testing::CpuModel& cpu : testing::CpuModels()) {
    Compiled model;
    Compile(ResNet50(), cpu, model);
    EXPECT_GT(model.plan.alive(), 1e6);
    EXPECT_LE(model.plan.arena(), 1.3 * model.plan.alive()) << cpu.arch;
    // 53 convolutions, 17 of which have a copy of the image with zeros around it; two pools; and the dense layer, in
    // two steps. All else is done where one of these stores.
    EXPECT_LE(model.executable.steps_size(), 53 + 17 + 2 + 2) << cpu.arch;
  }
}

TEST(Models, Gpt2TakesLittleMoreMemoryThanIsAliveAtOnce) {
  for (const testing::CpuModel& cpu : testing::CpuModels()) {
    Compiled model;
    Compile(Gpt2(64), cpu, model);
    EXPECT_LE(model.plan.arena(), 1.3 * model.plan.alive()) << cpu.arch;
  }
}

}  // namespace
}  // namespace kiln::bench
