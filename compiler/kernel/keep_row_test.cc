#include "compiler/kernel/keep_row.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/interp/kernel_eval.h"
#include "compiler/kernel/linearize.h"
#include "compiler/kernel/reduce_to_acc.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

constexpr int kSteps = 10;

// out[i][j] = g(x[i][j]) + the sum of f(x[i][k]) over k: f is kSteps of * x and ^ 1 in turn, g the first `steps`.
UOp* Kernel(Graph& graph, int steps) {
  std::string text = R"(
  0 CONST : weakint [] 8
  1 STACK : weakint [0]
  2 PARAM : int32 [1] slot=0
  3 CONST : int64 [] 2
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 CONST : int64 [] 4
  6 RANGE : int64 [5] range=(1) type=LOOP
  7 RANGE : int64 [5] range=(2) type=REDUCE
  8 MUL [4, 5]
  9 ADD [8, 6]
  10 ADD [8, 7]
  11 PARAM : int32 [1] slot=1
  12 INDEX [11, 9]
  13 LOAD [12]
  14 INDEX [11, 10]
  15 LOAD [14]
  16 CONST : int32 [] 1
)";
  int next = 17;
  const auto f = [&](int x, int count) {
    int value = x;
    for (int i = 0; i < count; ++i, value = next++)
      absl::StrAppend(&text, next, " ", i % 2 == 0 ? "MUL" : "XOR", " [", value, ", ", i % 2 == 0 ? x : 16, "]\n");
    return value;
  };
  const int stored = f(13, steps), summed = f(15, kSteps);
  absl::StrAppend(&text, next, " REDUCE [", summed, ", 7] ADD axes=()\n", next + 1, " ADD [", stored, ", ", next, "]\n",
                  next + 2, " INDEX [2, 9]\n", next + 3, " STORE [", next + 2, ", ", next + 1, "]\n", next + 4,
                  " END [", next + 3, ", 4, 6]\n", next + 5, " SINK [", next + 4, "] kernel name=\"row\"\n");
  return ReduceToAcc(graph, ReadText(graph, text));
}

TEST(KeepRow, WhatBothLoopsComputeIsComputedOnce) {
  Graph graph;
  UOp* kernel = Kernel(graph, kSteps);
  UOp* kept = KeepRow(graph, kernel);
  ASSERT_NE(kept, kernel);
  EXPECT_EQ(CountOf(kernel, Op::XOR), 10u);
  EXPECT_EQ(CountOf(kept, Op::XOR), 5u);
  EXPECT_EQ(CountOf(kept, Op::STORE), CountOf(kernel, Op::STORE) + 1);
  KernelMemory want = {{0, std::vector<uint64_t>(8, 0)}, {1, {1, 2, 3, 4, 5, 6, 7, 8}}}, got = want;
  ASSERT_TRUE(EvalKernel(Linearize(graph, kernel), want).ok());
  ASSERT_TRUE(EvalKernel(Linearize(graph, kept), got).ok());
  EXPECT_EQ(got, want);
}

TEST(KeepRow, WhatOnlyOneOfThemComputesStays) {
  Graph graph;
  UOp* kernel = Kernel(graph, 0);
  EXPECT_EQ(KeepRow(graph, kernel), kernel);
}

}  // namespace
}  // namespace kiln::compiler
