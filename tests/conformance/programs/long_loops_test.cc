// Loops that are long enough to look whether they are to stop, in pieces or in every iteration:
// when nothing stops them, each iteration runs once.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/endless.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

using compiler::HostTensors;

v1::Graph Parsed(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : v1::Graph();
}

// The first number of slot 0 afterwards.
int32_t FirstOf(const v1::Graph& graph, const HostTensors& arguments) {
  CpuEngine cpu;
  const auto got = cpu.Run(graph, arguments, ExactOptions());
  EXPECT_TRUE(got.ok()) << got.status();
  int32_t value = -1;
  if (got.ok()) std::memcpy(&value, got->written.at(0).bytes.data(), sizeof(value));
  return value;
}

// x[0] += j + 1 for i below `outer`, j below `inner`; the last is slot 1, a number that is read.
std::string Sum(const std::string& outer) {
  return absl::StrCat(R"(
    0 CONST [] weakint 1
    1 PARAM : int32 [0] slot=0
    2 PARAM : int32 [0] slot=1
    3 CONST [] int32 0
    4 INDEX [1, 3]
    5 INDEX [2, 3]
    6 LOAD [5]
    7 CONST [] weakint )",
                      outer, R"(
    8 RANGE [7] range=(0)
    9 RANGE [6] range=(1)
    10 CAST [9] to=int32
    11 CONST [] int32 1
    12 ADD [10, 11]
    13 LOAD [4]
    14 ADD [13, 12]
    15 STORE [4, 14]
    16 END [15, 9]
    17 END [16, 8]
    18 LINEAR [1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 15, 16, 17]
  )");
}

TEST(LongLoops, OfHandWrittenPrograms) {
  for (const auto& [outer, inner] :
       std::vector<std::pair<int, int>>{{1, 0}, {1, 1}, {1, 1'000'003}, {1'000, 1'000}, {20'011, 3}, {3, 500'000}}) {
    SCOPED_TRACE(absl::StrCat(outer, " times ", inner));
    const auto sum = static_cast<int64_t>(outer) * (static_cast<int64_t>(inner) * (inner + 1) / 2);
    EXPECT_EQ(FirstOf(Parsed(Sum(absl::StrCat(outer))), {{0, Int32s({0})}, {1, Int32s({inner})}}),
              static_cast<int32_t>(sum));
  }
}

// Of constant bounds, around the length of a piece and far beyond.
TEST(LongLoops, OfConstantBounds) {
  for (const int64_t times : {1, 100'000, 1'000'000, 5'000'000, 5'000'001}) {
    EXPECT_EQ(FirstOf(CountsFor(times), {{0, Int32s({7})}}), 7 + times);
  }
}

// The sum over i and j of x[i] y[j] ^ 3, of integers: one number; over j alone, a row of them.
TEST(LongLoops, OfTensors) {
  constexpr int kSize = 3001;
  std::vector<int32_t> x(kSize), y(kSize);
  for (int i = 0; i < kSize; ++i) {
    x[i] = i % 17;
    y[i] = i % 5 * 3;
  }
  const auto graph = [&](const char* axes) {
    return Parsed(absl::StrCat("0 CONST [] weakint ", kSize, R"(
      1 PARAM : int32 [0] slot=0
      2 PARAM : int32 [0] slot=1
      3 CONST [] weakint 1
      4 STACK [0, 3]
      5 RESHAPE [1, 4]
      6 STACK [3, 0]
      7 RESHAPE [2, 6]
      8 STACK [0, 0]
      9 EXPAND [5, 8]
      10 EXPAND [7, 8]
      11 MUL [9, 10]
      12 CONST [] int32 3
      13 XOR [11, 12]
      14 REDUCE [13] ADD axes=)",
                               axes, "\n15 TUPLE [14]\n"));
  };
  const HostTensors arguments = {{0, Int32s(x)}, {1, Int32s(y)}};
  CpuEngine cpu;
  int64_t whole = 0;
  std::vector<int32_t> rows(kSize);
  for (int i = 0; i < kSize; ++i) {
    for (int j = 0; j < kSize; ++j) rows[i] += (x[i] * y[j]) ^ 3;
    whole += rows[i];
  }
  for (const char* axes : {"(0, 1)", "(1)"}) {
    const auto got = cpu.Run(graph(axes), arguments, ExactOptions());
    ASSERT_TRUE(got.ok()) << got.status();
    std::vector<int32_t> values(got->results.at(0).bytes.size() / 4);
    std::memcpy(values.data(), got->results.at(0).bytes.data(), 4 * values.size());
    EXPECT_EQ(values, values.size() == 1 ? std::vector<int32_t>{static_cast<int32_t>(whole)} : rows);
  }
}

}  // namespace
}  // namespace kiln::testing
