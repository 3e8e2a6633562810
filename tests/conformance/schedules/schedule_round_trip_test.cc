// Schedules as data: what the compiler says that it did to a kernel, sent back as a
// client's OptOps on the plain kernel, gives the same machine code, byte for byte.
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "compiler/opt/requested.h"
#include "compiler/opt/schedule_text.h"
#include "tests/conformance/cases.h"
#include "tests/support/cpu_targets.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

// Keeps the kernel as `kiln explain --stage "simplify ranges"` prints it: what the OptOps count the loops of.
class PlainKernel : public compiler::CompileObserver {
 public:
  void OnPass(const compiler::PassRecord& record) override {
    if (record.name == "simplify ranges") text_ = record.text();
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class ScheduleRoundTrip : public ::testing::Test {
 protected:
  void Check(const std::string& name, const v1::Graph& graph, const CpuModel& cpu) {
    Check(absl::StrCat(name, " on ", cpu.arch), graph, TargetOf(cpu));
  }
  void Check(const std::string& name, const v1::Graph& graph, const v1::Target& target) {
    SCOPED_TRACE(name);
    PlainKernel plain;
    const auto made = compiler::Compile(graph, target, {}, &plain);
    ASSERT_TRUE(made.ok()) << made.status();
    if (made->kernels_size() != 1 || plain.text().empty()) return;
    const std::string& schedule = made->kernels(0).schedule();
    if (schedule.empty()) return;
    const auto opts = compiler::ParseSchedule(schedule);
    ASSERT_TRUE(opts.ok()) << opts.status() << " in " << schedule;

    auto kernel = ParseGraph(plain.text());
    ASSERT_TRUE(kernel.ok()) << kernel.status() << "\n" << plain.text();
    v1::KernelInfo& info = *kernel->mutable_nodes(kernel->nodes_size() - 1)->mutable_kernel();
    for (const compiler::OptOp& opt : *opts) {
      const compiler::OptArg request = compiler::ToRequest(opt);
      v1::OptOp& sent = *info.add_opts();
      sent.set_kind(static_cast<v1::OptOp::Kind>(request.kind));
      sent.set_axis(request.axis);
      sent.mutable_arg()->Add(request.arg.begin(), request.arg.end());
    }
    const auto again = compiler::Compile(*kernel, target, {});
    if (DetailOf(again.status()).has_value() && DetailOf(again.status())->code() == v1::UNSUPPORTED_OP) {
      ++not_plain_;  // written by hand, it would be a program
      return;
    }
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << schedule << "\n" << plain.text();
    EXPECT_EQ(again->kernels(0).schedule(), schedule);
    EXPECT_EQ(again->object(), made->object()) << schedule;
    ++same_;
  }

  int same_ = 0, not_plain_ = 0;
};

TEST_F(ScheduleRoundTrip, ConformanceCases) {
  int number = 0;
  for (const auto& [cases, step] : {std::pair(TensorCases(), 4), std::pair(ScalarCases(), 16)}) {
    for (const Case& test : cases) {
      if (number++ % step != 0) continue;
      Check(test.name, test.graph, CpuModels()[static_cast<size_t>(number / step) % CpuModels().size()]);
    }
  }
  EXPECT_GT(same_, 50);
  EXPECT_LT(not_plain_, same_ / 4);
  RecordProperty("same", same_);
  RecordProperty("not_plain", not_plain_);
}

TEST_F(ScheduleRoundTrip, ProductsConvolutionsAndReductions) {
  const std::map<std::string, std::function<Tensor(client::Graph&)>> programs = {
      {"matmul",
       [](client::Graph& g) {
         return client::Matmul(g.Param(0, v1::FLOAT32, {200, 300}), g.Param(1, v1::FLOAT32, {300, 500}));
       }},
      {"matmul, second operand transposed",
       [](client::Graph& g) {
         return client::Linear(g.Param(0, v1::FLOAT32, {64, 256}), g.Param(1, v1::FLOAT32, {96, 256}),
                               g.Param(2, v1::FLOAT32, {96}));
       }},
      {"matmul of 8-bit integers",
       [](client::Graph& g) {
         return client::Matmul(client::Cast(g.Param(0, v1::UINT8, {200, 320}), v1::INT32),
                               client::Cast(g.Param(1, v1::INT8, {320, 500}), v1::INT32));
       }},
      {"large matmul",
       [](client::Graph& g) {
         return client::Matmul(g.Param(0, v1::FLOAT32, {1024, 1024}), g.Param(1, v1::FLOAT32, {1024, 1024}));
       }},
      {"convolution",
       [](client::Graph& g) {
         return client::Conv2d(g.Param(0, v1::FLOAT32, {1, 16, 28, 28}), g.Param(1, v1::FLOAT32, {32, 16, 3, 3}),
                               Tensor(), {});
       }},
      {"softmax", [](client::Graph& g) { return client::Softmax(g.Param(0, v1::FLOAT32, {64, 1000}), 1); }},
      {"columns", [](client::Graph& g) { return client::Sum(g.Param(0, v1::FLOAT32, {100, 1000}), {0}); }},
      {"transpose", [](client::Graph& g) { return client::Transpose(g.Param(0, v1::FLOAT32, {256, 512})) * 2.0; }},
      {"transpose of bytes", [](client::Graph& g) { return client::Transpose(g.Param(0, v1::UINT8, {256, 512})) + 1; }},
  };
  for (const auto& [name, make] : programs) {
    client::Graph graph;
    graph.Output(make(graph));
    for (const CpuModel& cpu : CpuModels()) Check(name, graph.Build().value(), cpu);
    Check(name + " by tiles", graph.Build().value(), TargetWithTiles());
  }
  EXPECT_EQ(same_, static_cast<int>(programs.size() * (CpuModels().size() + 1)));
}

}  // namespace
}  // namespace kiln::testing
