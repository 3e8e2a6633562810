// docs/ir.md means what it says: each of its graphs is run, by the interpreter and
// compiled for the CPU, and what stands below it is what comes out.
//
//   gives int32 (3): 1 2 3              the next of the results
//   slot 0 becomes int32 (3): 1 2 3     storage that was zeros
//   refused: CODE at node 2 (SUB)       what the error's detail says
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/interp/scalar.h"
#include "compiler/interp/tensor.h"
#include "compiler/ir/dtype.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/multi_engine.h"

namespace kiln::testing {
namespace {

using compiler::HostTensor;

// Compiled for as many devices as it names.
constexpr char kSeveralDevices[] = R"(("D0", "D1"))";

struct Example {
  std::string graph;
  std::vector<std::string> results;
  std::vector<std::pair<uint32_t, std::string>> slots;
  std::string refusal;
};

std::vector<Example> Examples() {
  std::ifstream file("docs/ir.md");
  EXPECT_TRUE(file);
  std::vector<Example> examples;
  bool inside = false;
  for (std::string text; std::getline(file, text);) {
    absl::string_view line = text;
    if (absl::StartsWith(line, "```")) {
      inside = line == "```uop";
      if (inside) examples.emplace_back();
      continue;
    }
    if (!inside) continue;
    Example& example = examples.back();
    if (absl::ConsumePrefix(&line, "gives ")) {
      example.results.emplace_back(line);
    } else if (absl::ConsumePrefix(&line, "refused: ")) {
      example.refusal = std::string(line);
    } else if (absl::ConsumePrefix(&line, "slot ")) {
      const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, " becomes ");
      uint32_t slot = 0;
      EXPECT_TRUE(absl::SimpleAtoi(parts.first, &slot)) << text;
      example.slots.emplace_back(slot, std::string(parts.second));
    } else {
      absl::StrAppend(&example.graph, line, "\n");
    }
  }
  return examples;
}

std::string ElementText(compiler::DType dtype, uint64_t bits) {
  if (compiler::IsFloat(dtype)) {
    const double value = compiler::FloatValue(dtype, bits);
    return value != value ? "nan" : absl::StrCat(value);
  }
  return compiler::IsSigned(dtype) ? absl::StrCat(static_cast<int64_t>(bits)) : absl::StrCat(bits);
}

// "int32 (3): 1 2 3"
std::string Text(const HostTensor& tensor) {
  const compiler::Tensor cells = compiler::FromHost(tensor);
  std::vector<std::string> sizes, elements;
  for (const compiler::Dim& size : tensor.shape) sizes.push_back(absl::StrCat(int64_t{size}));
  for (const uint64_t bits : cells.bits) elements.push_back(ElementText(tensor.dtype, bits));
  return absl::StrCat(std::string(compiler::Name(tensor.dtype)), " (", absl::StrJoin(sizes, ", "),
                      "): ", absl::StrJoin(elements, " "));
}

// Zeros of the dtype and shape that "int32 (3): …" names.
HostTensor ZerosLike(absl::string_view text) {
  HostTensor zeros;
  const absl::string_view name = text.substr(0, text.find(' '));
  for (int i = 0; i < 32; ++i) {
    const auto dtype = static_cast<v1::DType>(i);
    if (compiler::Name(compiler::FromWire(dtype)) == name) zeros.dtype = compiler::FromWire(dtype);
  }
  int64_t elements = 1;
  const absl::string_view shape = text.substr(text.find('(') + 1, text.find(')') - text.find('(') - 1);
  for (absl::string_view size : absl::StrSplit(shape, ", ", absl::SkipEmpty())) {
    int64_t n = 0;
    EXPECT_TRUE(absl::SimpleAtoi(size, &n)) << text;
    zeros.shape.push_back(n);
    elements *= n;
  }
  zeros.bytes.assign(static_cast<size_t>(elements * compiler::ItemSize(zeros.dtype)), '\0');
  return zeros;
}

void Expect(const Example& example, const absl::StatusOr<compiler::InterpResult>& got) {
  if (!example.refusal.empty()) {
    ASSERT_FALSE(got.ok());
    const v1::ErrorDetail detail = DetailOf(got.status()).value_or(v1::ErrorDetail());
    EXPECT_EQ(absl::StrCat(v1::ErrorCode_Name(detail.code()), " at node ", detail.node(), " (", detail.op(), ")"),
              example.refusal)
        << got.status();
    return;
  }
  ASSERT_TRUE(got.ok()) << got.status();
  std::vector<std::string> results;
  for (const HostTensor& result : got->results) results.push_back(Text(result));
  EXPECT_EQ(results, example.results);
  ASSERT_EQ(got->written.size(), example.slots.size());
  for (const auto& [slot, text] : example.slots) {
    ASSERT_TRUE(got->written.contains(slot));
    EXPECT_EQ(Text(got->written.at(slot)), text);
  }
}

TEST(IrPage, EveryExampleGivesWhatThePageSays) {
  CpuEngine cpu;
  const std::vector<Example> examples = Examples();
  EXPECT_GE(examples.size(), 14u);
  for (const Example& example : examples) {
    SCOPED_TRACE(example.graph);
    EXPECT_NE(example.results.size() + example.slots.size() + example.refusal.size(), 0u) << "it says nothing";
    const auto graph = ParseGraph(example.graph);
    ASSERT_TRUE(graph.ok()) << graph.status();
    compiler::HostTensors arguments;
    for (const auto& [slot, text] : example.slots) arguments[slot] = ZerosLike(text);
    Expect(example, RunInterpreted(*graph, arguments));
    Expect(example, absl::StrContains(example.graph, kSeveralDevices)
                        ? MultiEngine(2).Run(*graph, arguments, ExactOptions())
                        : cpu.Run(*graph, arguments, ExactOptions()));
  }
}

}  // namespace
}  // namespace kiln::testing
