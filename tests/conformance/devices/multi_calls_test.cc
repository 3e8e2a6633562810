// CALLs of kernels in programs for four devices: each device runs the kernel on its
// shares, and all is as on one device, where the kernel is as long as the whole.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/multi_engine.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::HostTensors;

constexpr int kDevices = 4;
constexpr char kFour[] = R"(device=("D0", "D1", "D2", "D3"))";

// $0: elements of slots 0 and 1, where $2 says; $1: of the kernel's (18), by which slot 0 =
// slot 1 + slot 2.
constexpr char kHead[] = R"(0 CONST [] weakint $0
1 STACK [0]
2 PARAM [1] slot=0 dtype=int32 $2
3 PARAM [1] slot=1 dtype=int32 $2
4 CONST [] weakint $1
5 STACK [4]
6 PARAM [5] slot=0 dtype=int32
7 PARAM [5] slot=1 dtype=int32
8 PARAM [5] slot=2 dtype=int32
9 RANGE [4] range=(0) type=GLOBAL
10 INDEX [6, 9]
11 INDEX [7, 9]
12 INDEX [8, 9]
13 LOAD [11]
14 LOAD [12]
15 ADD [13, 14]
16 STORE [10, 15]
17 END [16, 9]
18 SINK [17] kernel name="add"
)";

v1::Graph Parsed(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status() << text;
  return graph.ok() ? *graph : v1::Graph();
}

v1::Graph OnFour(const std::string& nodes) { return Parsed(absl::Substitute(kHead, 32, 8, kFour) + nodes); }

HostTensor Ints(int64_t count, int32_t first, int32_t step) {
  HostTensor tensor{DType::kInt32, {count}, ""};
  for (int64_t i = 0; i < count; ++i) {
    const int32_t value = first + step * static_cast<int32_t>(i);
    tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return tensor;
}

void ExpectSame(const absl::StatusOr<compiler::InterpResult>& got, const absl::StatusOr<compiler::InterpResult>& wanted,
                const std::string& what) {
  ASSERT_TRUE(got.ok()) << what << got.status();
  ASSERT_TRUE(wanted.ok()) << what << wanted.status();
  ASSERT_EQ(got->results.size(), wanted->results.size()) << what;
  for (size_t i = 0; i < got->results.size(); ++i)
    EXPECT_EQ(got->results[i].bytes, wanted->results[i].bytes) << what << " result " << i;
  ASSERT_EQ(got->written.size(), wanted->written.size()) << what;
  for (const auto& [slot, tensor] : wanted->written)
    EXPECT_EQ(got->written.at(slot).bytes, tensor.bytes) << what << " slot " << slot;
}

TEST(MultiCalls, FourDevicesGiveWhatOneGives) {
  const char* rows[] = {
      // In place, of a parameter and of what is computed.
      "19 MUL [3, 3]\n20 CALL [18, 2, 3, 19]\n21 AFTER [2, 20]\n22 TUPLE [21]\n",
      "19 CALL [18, 2, 3, 3]\n20 SINK [19]\n",
      // What it made is summed over the devices, and goes into the next one.
      "19 CALL [18, 2, 3, 3]\n20 AFTER [2, 19]\n21 REDUCE [20] ADD axes=(0)\n22 ADD [3, 21]\n"
      "23 CALL [18, 2, 20, 22]\n24 AFTER [2, 23]\n25 TUPLE [24, 21]\n",
      // Before and behind STOREs.
      "19 ADD [3, 3]\n20 STORE [2, 19]\n21 AFTER [2, 20]\n22 CALL [18, 2, 21, 3]\n23 AFTER [21, 22]\n"
      "24 MUL [23, 23]\n25 STORE [23, 24]\n26 AFTER [23, 25]\n27 TUPLE [26]\n",
      // In other shapes; one argument is on one device at first.
      "19 CONST [] weakint 2\n20 CONST [] weakint 16\n21 STACK [20, 19]\n22 RESHAPE [2, 21]\n23 RESHAPE [3, 21]\n"
      "24 CALL [18, 22, 23, 3]\n25 AFTER [22, 24]\n26 TUPLE [25]\n",
      // Two storages that feed each other.
      "19 CALL [18, 2, 3, 3]\n20 AFTER [2, 19]\n21 CALL [18, 3, 20, 3]\n22 AFTER [3, 21]\n23 CALL [18, 2, 20, 22]\n"
      "24 AFTER [2, 23]\n25 TUPLE [24, 22]\n",
  };
  const HostTensors arguments = {{0, Ints(32, 5, 3)}, {1, Ints(32, -40, 7)}};
  for (const char* nodes : rows) {
    const auto one = CpuEngine().Run(Parsed(absl::Substitute(kHead, 32, 32, "") + nodes), arguments, ExactOptions());
    MultiEngine four(kDevices);
    ExpectSame(four.Run(OnFour(nodes), arguments, ExactOptions()), one, nodes);
    ExpectSame(RunInterpreted(OnFour(nodes), arguments), one, absl::StrCat("interpreted: ", nodes));
    // By one device of four names.
    MultiEngine named(kDevices, /*as_one=*/true);
    ExpectSame(named.Run(OnFour(nodes), arguments, ExactOptions()), one, absl::StrCat("four names: ", nodes));
  }
}

// A parameter that is whole on each device is a row for each.
TEST(MultiCalls, WholeOnEachDevice) {
  const std::string head = absl::Substitute(kHead, 8, 8, "");
  const auto one = CpuEngine().Run(Parsed(head + "19 CALL [18, 2, 3, 3]\n20 AFTER [2, 19]\n21 TUPLE [20]\n"),
                                   {{0, Ints(8, 5, 3)}, {1, Ints(8, -40, 7)}}, ExactOptions());
  ASSERT_TRUE(one.ok()) << one.status();
  HostTensor rows = Ints(8, -40, 7), wanted = one->results[0];
  for (HostTensor* tensor : {&rows, &wanted}) {
    const std::string row = tensor->bytes;
    for (int i = 1; i < kDevices; ++i) tensor->bytes += row;
  }
  MultiEngine four(kDevices);
  const auto got = four.Run(OnFour("19 CONST [] weakint 4\n20 CONST [] weakint 8\n21 STACK [19, 20]\n"
                                   "22 RESHAPE [3, 21]\n23 REPLICATED [22] index=0\n24 CALL [18, 2, 3, 23]\n"
                                   "25 AFTER [2, 24]\n26 TUPLE [25]\n"),
                            {{0, Ints(32, 0, 0)}, {1, rows}}, ExactOptions());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->results[0].bytes, wanted.bytes);
}

TEST(MultiCalls, WhatDoesNotFitIsNamed) {
  struct Row {
    const char* nodes;
    v1::ErrorCode code;
    const char* text;
  };
  const Row rows[] = {
      {"19 REDUCE [3] ADD axes=(0)\n20 CALL [18, 2, 3, 19]\n21 SINK [20]\n", v1::SHAPE_MISMATCH, "shape (1,)"},
      {"19 COPY [3] load device=(\"D0\")\n20 CALL [18, 2, 3, 19]\n21 SINK [20]\n", v1::SHAPE_MISMATCH, "shape (32,)"},
      {"19 SHRINK [3] axes=(0, 8)\n20 CALL [18, 2, 3, 19]\n21 SINK [20]\n", v1::BAD_ARGUMENT, "COPY first"},
      {"19 COPY [3] load device=(\"D0\")\n20 SHRINK [19] axes=(0, 8)\n21 CALL [18, 2, 3, 20]\n22 SINK [21]\n",
       v1::BAD_ARGUMENT, "COPY first"},
  };
  for (const Row& row : rows) {
    const auto program = MultiEngine(kDevices).Compile(OnFour(row.nodes), ExactOptions());
    ASSERT_FALSE(program.ok()) << row.nodes;
    EXPECT_EQ(DetailOf(program.status()).value_or(v1::ErrorDetail()).code(), row.code) << program.status();
    EXPECT_NE(program.status().message().find(row.text), absl::string_view::npos) << program.status();
  }
}

// As many elements as a share, modulo 2^64, are not as many.
TEST(MultiCalls, ABodyLongerThanItsShareIsRefused) {
  std::string devices;
  for (int i = 0; i < 1024; ++i) absl::StrAppend(&devices, i == 0 ? "" : ", ", "\"D", i, "\"");
  const std::string body =
      "3 CONST [] weakint $0\n4 STACK [3]\n5 PARAM [4] slot=0 dtype=int8\n"
      "6 CONST [] weakint 4\n7 RANGE [6] range=(0) type=GLOBAL\n8 INDEX [5, 7]\n"
      "9 CONST [] int8 7\n10 STORE [8, 9]\n11 END [10, 7]\n12 SINK [11] kernel name=\"k\"\n"
      "13 CALL [12, 2]\n14 AFTER [2, 13]\n15 TUPLE [14]\n";
  for (const int64_t elements : {int64_t{16}, (int64_t{1} << 54) + 16}) {
    const v1::Graph graph =
        Parsed(absl::StrCat("0 CONST [] weakint 16384\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=int8 device=(", devices,
                            ")\n", absl::Substitute(body, elements)));
    const absl::Status compiled = MultiEngine(kDevices).Compile(graph, ExactOptions()).status();
    if (elements == 16) {
      EXPECT_TRUE(compiled.ok()) << compiled;
    } else {
      EXPECT_EQ(DetailOf(compiled).value_or(v1::ErrorDetail()).code(), v1::SHAPE_MISMATCH) << compiled;
    }
  }
}

}  // namespace
}  // namespace kiln::testing
