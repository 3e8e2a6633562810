// Programs whose sizes each run decides, compiled once and run with several: for each the interpreter's values.
#ifndef KILN_TESTS_CONFORMANCE_SYMBOLIC_PROGRAMS_H_
#define KILN_TESTS_CONFORMANCE_SYMBOLIC_PROGRAMS_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/arguments.h"
#include "tests/support/compare.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {

class SymbolicPrograms : public ::testing::Test {
 protected:
  using Shapes = std::vector<std::vector<int64_t>>;

  // `program` of parameters of these shapes, on one core, and on three with a small L2 cache; each time also with the
  // second parameter as a constant. -1 stands for a size of 1 to 11, -2 for one of 1 to 40. `ulp`: units in the last
  // place by which floats may differ.
  template <typename Program>
  void Check(const std::string& name, const Shapes& shapes, Program program, int64_t ulp = 0) {
    client::Graph graph;
    const client::Size count = graph.Variable(kCount, 1, 11, "count");
    const client::Size length = graph.Variable(kLength, 1, 40, "length");
    std::vector<client::Tensor> inputs;
    bool has_length = false;
    for (const std::vector<int64_t>& shape : shapes) {
      client::Sizes sizes;
      for (const int64_t size : shape) {
        has_length |= size == -2;
        sizes.push_back(size == -1 ? count : size == -2 ? length : client::Size(size));
      }
      inputs.push_back(graph.Param(static_cast<uint32_t>(inputs.size()), v1::FLOAT32, sizes));
    }
    graph.Output(program(inputs));
    const auto built = graph.Build();
    ASSERT_TRUE(built.ok()) << built.status();
    std::vector<compiler::VariableValues> values = {{{kCount, 1}}, {{kCount, 2}}, {{kCount, 5}}, {{kCount, 11}}};
    if (has_length) {
      values.clear();
      for (const auto [a, b] : {std::pair{1, 1}, {1, 17}, {2, 16}, {5, 3}, {11, 40}})
        values.push_back({{kCount, a}, {kLength, b}});
    }
    CheckValues(name, *built, values, ulp);
  }

 private:
  static constexpr uint32_t kCount = 9, kLength = 10;  // slots

  void CheckValues(const std::string& name, const v1::Graph& graph, const std::vector<compiler::VariableValues>& all,
                   int64_t ulp) {
    struct Run {
      compiler::VariableValues values;
      compiler::HostTensors arguments;
      compiler::InterpResult want;
    };
    std::vector<Run> runs;
    for (const compiler::VariableValues& values : all) {
      const auto arguments = RandomArguments(graph, runs.size() + 1, values);
      ASSERT_TRUE(arguments.ok()) << arguments.status();
      const auto want = RunInterpreted(graph, *arguments, values);
      ASSERT_TRUE(want.ok()) << want.status();
      runs.push_back({values, *arguments, *want});
    }
    for (const bool small : {false, true}) {
      for (const bool constant : {false, true}) {
        SCOPED_TRACE(absl::StrCat(name, small ? ", a small L2, three cores" : "", constant ? ", packed" : ""));
        CpuEngine& engine = small ? several_ : one_;
        compiler::Options options;
        if (constant) options.constants = {1};
        v1::Target target = engine.device().target();
        target.mutable_tuning()->set_l2_bytes(small ? 32 << 10 : 1 << 20);
        const auto executable = compiler::Compile(graph, target, options);
        ASSERT_TRUE(executable.ok()) << executable.status();
        const auto loaded = engine.Load(*executable);
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        for (const Run& run : runs) {
          const auto got = engine.RunLoaded(*loaded, run.arguments, run.values);
          ASSERT_TRUE(got.ok()) << got.status();
          std::string sizes;
          for (const auto& [slot, value] : run.values) absl::StrAppend(&sizes, " ", value);
          EXPECT_EQ(CompareOutcomes(*got, run.want, {.ulp = ulp, .zero_signs = false}), "") << "sizes" << sizes;
        }
      }
    }
  }

  CpuEngine one_{1}, several_{3};
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_CONFORMANCE_SYMBOLIC_PROGRAMS_H_
