// tinyspec's "Common Ops as Compositions" on every engine, against NumPy
// (reference_compositions.py has the definitions).
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/dtype_names.h"
#include "base/graph/graph_text.h"
#include "compiler/interp/scalar.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;

struct Composition {
  std::string name;
  std::string graph;
  compiler::HostTensors inputs;
  HostTensor expect;
};

// "float32: 1 -2 3"; the shape is the graph's to know.
HostTensor ReadTensor(absl::string_view line) {
  const std::pair<std::string, std::string> halves = absl::StrSplit(line, absl::MaxSplits(':', 1));
  HostTensor tensor;
  tensor.dtype = compiler::FromWire(ParseDType(halves.first).value());
  for (absl::string_view word : absl::StrSplit(halves.second, ' ', absl::SkipEmpty())) {
    double value = 0;
    KILN_CHECK(absl::SimpleAtod(word, &value));
    const bool is_float = compiler::IsFloat(tensor.dtype);
    const uint64_t bits =
        is_float ? compiler::FloatBits(tensor.dtype, value) : static_cast<uint64_t>(static_cast<int64_t>(value));
    const size_t end = tensor.bytes.size();
    tensor.bytes.resize(end + compiler::ItemSize(tensor.dtype));
    compiler::StoreElement(tensor.dtype, bits, tensor.bytes.data() + end);
  }
  return tensor;
}

std::vector<Composition> ReadCompositions() {
  std::ifstream file("tests/conformance/reference/compositions.txt");
  KILN_CHECK(file.good());
  std::vector<Composition> all;
  for (std::string line; std::getline(file, line);) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "case ")) {
      all.push_back({std::string(rest)});
    } else if (absl::ConsumePrefix(&rest, "input ")) {
      const std::pair<std::string, std::string> parts = absl::StrSplit(rest, absl::MaxSplits(' ', 1));
      uint32_t slot = 0;
      KILN_CHECK(absl::SimpleAtoi(parts.first, &slot));
      all.back().inputs[slot] = ReadTensor(parts.second);
    } else if (absl::ConsumePrefix(&rest, "expect ")) {
      all.back().expect = ReadTensor(rest);
    } else {
      absl::StrAppend(&all.back().graph, line, "\n");
    }
  }
  return all;
}

template <typename Run>
void CheckAll(Run run) {
  const std::vector<Composition> all = ReadCompositions();
  EXPECT_GE(all.size(), 50u);
  for (const Composition& test : all) {
    const auto graph = ParseGraph(test.graph);
    ASSERT_TRUE(graph.ok()) << test.name << ": " << graph.status();
    const absl::StatusOr<compiler::InterpResult> got = run(*graph, test.inputs);
    ASSERT_TRUE(got.ok()) << test.name << ": " << got.status();
    ASSERT_EQ(got->results.size(), 1u) << test.name;
    EXPECT_EQ(got->results[0].dtype, test.expect.dtype) << test.name;
    EXPECT_TRUE(got->results[0].bytes == test.expect.bytes) << test.name << " is not what NumPy gives";
  }
}

TEST(Compositions, InterpreterGivesWhatNumpyGives) {
  CheckAll([](const v1::Graph& graph, const compiler::HostTensors& inputs) { return RunInterpreted(graph, inputs); });
}

TEST(Compositions, CompiledProgramsGiveWhatNumpyGives) {
  CpuEngine engine;
  CheckAll([&](const v1::Graph& graph, const compiler::HostTensors& inputs) {
    return engine.Run(graph, inputs, ExactOptions());
  });
}

}  // namespace
}  // namespace kiln::testing
