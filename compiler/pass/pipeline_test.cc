#include "compiler/pass/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Condition kAlways = {""};

class Records final : public CompileObserver {
 public:
  explicit Records(std::string last = "") : last_(std::move(last)) {}
  void OnPass(const PassRecord& record) override {
    names.emplace_back(record.name);
    texts.push_back(record.text());
    nodes.push_back(record.nodes);
  }
  bool StopAfter(absl::string_view pass) const override { return pass == last_; }

  std::vector<std::string> names, texts;
  std::vector<size_t> nodes;

 private:
  const std::string last_;
};

class PipelineTest : public ::testing::Test {
 protected:
  PipelineTest() {
    wire_ = *ParseGraph(R"(
      0 CONST : weakint [] 4
      1 STACK [0]
      2 PARAM : float32 [1] slot=0
      3 EXP2 [2]
      4 TUPLE [3]
    )");
    root_ = *FromWire(wire_, options_.limits, graph_);
  }

  static Pass Row(absl::string_view name, std::function<absl::StatusOr<UOp*>(Lowering&, UOp*)> run) {
    return {name, Need::kRequired, kAlways, &kTensorSpec, &kTensorSpec, "a toy", std::move(run)};
  }

  v1::Graph wire_;
  Options options_;
  Graph graph_;
  Records records_;
  Lowering lowering_{graph_, options_, &records_};
  UOp* root_ = nullptr;
};

TEST_F(PipelineTest, APassIsVerifiedTimedAndShown) {
  const Pass twice = Row("twice", [](Lowering& l, UOp* root) -> absl::StatusOr<UOp*> {
    return l.graph.Make(Op::TUPLE, {root->src(0), root->src(0)});
  });
  const auto made = RunPass(lowering_, twice, root_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->src().size(), 2u);
  EXPECT_THAT(records_.names, ElementsAre("twice"));
  EXPECT_THAT(records_.nodes, ElementsAre(5u));
  EXPECT_THAT(records_.texts[0], HasSubstr("4 TUPLE"));
}

TEST_F(PipelineTest, WhatIsNotLegalNamesThePassBeforeAndAfterIt) {
  Pass loops = Row("loops", [](Lowering&, UOp* root) -> absl::StatusOr<UOp*> { return root; });
  loops.before = &kKernelSpec;
  const absl::Status before = RunPass(lowering_, loops, root_).status();
  EXPECT_THAT(std::string(before.message()), HasSubstr("loops: "));
  EXPECT_THAT(std::string(before.message()), HasSubstr("in a kernel"));
  loops.before = &kTensorSpec;
  loops.after = &kKernelSpec;
  EXPECT_EQ(DetailOf(RunPass(lowering_, loops, root_).status())->code(), v1::INTERNAL_FAULT);
  EXPECT_TRUE(records_.names.empty());
}

TEST_F(PipelineTest, TheObserverEndsIt) {
  Records stops("idle");
  Lowering lowering(graph_, options_, &stops);
  const Pass idle = Row("idle", [](Lowering&, UOp* root) -> absl::StatusOr<UOp*> { return root; });
  EXPECT_EQ(RunPass(lowering, idle, root_).status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(stops.names, ElementsAre("idle"));
}

TEST_F(PipelineTest, ADisabledPassAndOneWithNothingToDoAreLeftOut) {
  lowering_.wire = &wire_;
  const auto root = RunStage(lowering_, Stage::kImport, nullptr);
  ASSERT_TRUE(root.ok()) << root.status();
  const auto sink = RunStage(lowering_, Stage::kCallify, *root);
  ASSERT_TRUE(sink.ok()) << sink.status();
  const auto from = RunStage(lowering_, Stage::kRangeify, *sink, "split reductions");
  ASSERT_TRUE(from.ok()) << from.status();
  EXPECT_THAT(records_.names, ElementsAre("normalise", "callify", "split reductions", "choose buffers", "rangeify"));

  options_.contraction = false;
  options_.disabled_passes = {"optimize", "simplify ranges"};
  records_.names.clear();
  v1::Target target;
  target.set_kind(v1::Target::NULL_TARGET);
  lowering_.generator = *MakeCodeGenerator(target, options_);
  lowering_.body.target = &target;
  const auto kernel = RunStage(lowering_, Stage::kLoops, (*from)->src(0)->src(0));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_THAT(records_.names, ElementsAre("decompose", "scan"));
}

using PipelineDeathTest = PipelineTest;

TEST_F(PipelineDeathTest, APassThatSaysUnchangedAndChangedANodeAborts) {
  const Pass liar = Row("liar", [](Lowering&, UOp* root) -> absl::StatusOr<UOp*> {
    UOp* param = root->src(0)->src(0);
    const_cast<Arg&>(param->arg()) = [&] {
      BufferArg arg = param->arg_as<BufferArg>();
      arg.slot = 7;
      return arg;
    }();
    return root;
  });
#ifdef NDEBUG
  GTEST_SKIP() << "asserts are off";
#endif
  EXPECT_DEATH(RunPass(lowering_, liar, root_).IgnoreError(), "IsAsItWasMade");
}

TEST_F(PipelineDeathTest, APassThatSaysUnchangedAndGatedAborts) {
  const Pass liar = Row("liar", [](Lowering& l, UOp* root) -> absl::StatusOr<UOp*> {
    ++l.body.gates;
    return root;
  });
  EXPECT_DEATH(RunPass(lowering_, liar, root_).IgnoreError(), "gates");
}

TEST_F(PipelineDeathTest, AStepThatMakesAGraphAborts) {
  Pass step = Row("step", [](Lowering& l, UOp* root) -> absl::StatusOr<UOp*> {
    return l.graph.Make(Op::TUPLE, {root->src(0), root->src(0)});
  });
  step.before = step.after = nullptr;
  step.text = [](const Lowering&) { return std::string("a step\n"); };
  EXPECT_DEATH(RunPass(lowering_, step, root_).IgnoreError(), "pass.text");
}

}  // namespace
}  // namespace kiln::compiler
