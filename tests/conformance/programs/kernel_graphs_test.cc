// Kernels that a client writes as loops, with and without OptOps, compiled for this
// machine's CPU, against values computed here.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

class KernelGraphs : public ::testing::Test {
 protected:
  absl::StatusOr<compiler::InterpResult> Run(const std::string& text, const compiler::HostTensors& arguments,
                                             const compiler::Options& options = ExactOptions()) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    return cpu_.Run(*graph, arguments, options);
  }

  // Slot 0 afterwards.
  void Expect(const std::string& text, compiler::HostTensors arguments, const std::vector<int32_t>& want) {
    const auto got = Run(text, arguments);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_TRUE(got->written.contains(0));
    EXPECT_EQ(got->written.at(0).bytes, Int32s(want).bytes)
        << reinterpret_cast<const int32_t*>(got->written.at(0).bytes.data())[0];
  }

  static compiler::HostTensor Shaped(std::vector<int32_t> values, compiler::Shape shape) {
    compiler::HostTensor tensor = Int32s(values);
    tensor.shape = shape;
    return tensor;
  }

  CpuEngine cpu_;
};

TEST_F(KernelGraphs, AnIndexBeyondItsAxisReadsNothingOfTheNextRow) {
  const std::string text = R"(
    0 CONST [] weakint 2
    1 CONST [] weakint 3
    2 STACK [0, 1]
    3 PARAM : int32 [2] slot=0
    4 PARAM : int32 [2] slot=1
    5 RANGE [0] range=(0) type=LOOP
    6 RANGE [1] range=(1) type=LOOP
    7 CONST [] int64 1
    8 ADD [6, 7]
    9 INDEX [4, 5, 8]
    10 INDEX [3, 5, 6]
    11 STORE [10, 9]
    12 END [11, 5, 6]
    13 SINK [12] kernel name="shift"
  )";
  const compiler::HostTensors arguments = {{0, Shaped({9, 9, 9, 9, 9, 9}, {2, 3})},
                                           {1, Shaped({1, 2, 3, 4, 5, 6}, {2, 3})}};
  Expect(text, arguments, {2, 3, 0, 5, 6, 0});
  compiler::Options strict = ExactOptions();
  strict.strict = true;
  // The gate is the client's own axis: nothing is left to prove.
  EXPECT_TRUE(Run(text, arguments, strict).ok());
}

TEST_F(KernelGraphs, LoopsThatDependOnEachOtherRunInOrder) {
  Expect(R"(
    0 CONST [] weakint 5
    1 STACK [0]
    2 PARAM : int32 [1] slot=0
    3 CONST [] weakint 4
    4 RANGE [3] range=(0) type=LOOP
    5 CONST [] int64 1
    6 ADD [4, 5]
    7 INDEX [2, 4]
    8 CONST [] int32 2
    9 MUL [7, 8]
    10 INDEX [2, 6]
    11 STORE [10, 9]
    12 END [11, 4]
    13 SINK [12]
  )",
         {{0, Int32s({3, 0, 0, 0, 0})}}, {3, 6, 12, 24, 48});
}

TEST_F(KernelGraphs, AnInvalidIndexAccessesNothing) {
  Expect(R"(
    0 CONST [] weakint 6
    1 STACK [0]
    2 PARAM : int32 [1] slot=0
    3 PARAM : int32 [1] slot=1
    4 RANGE [0] range=(0) type=GLOBAL
    5 CONST [] int64 2
    6 CMPLT [4, 5]
    7 CONST [] int64 invalid
    8 WHERE [6, 7, 4]
    9 INDEX [2, 8]
    10 INDEX [3, 4]
    11 STORE [9, 10]
    12 END [11, 4]
    13 SINK [12] kernel name="gated"
  )",
         {{0, Int32s({9, 9, 9, 9, 9, 9})}, {1, Int32s({1, 2, 3, 4, 5, 6})}}, {9, 9, 3, 4, 5, 6});
}

TEST_F(KernelGraphs, AReductionSkipsWhatIsInvalid) {
  Expect(R"(
    0 CONST [] weakint 6
    1 CONST [] weakint 1
    2 STACK [1]
    3 STACK [0]
    4 PARAM : int32 [2] slot=0
    5 PARAM : int32 [3] slot=1
    6 RANGE [0] range=(0) type=REDUCE
    7 INDEX [5, 6]
    8 CONST [] int32 invalid
    9 CONST [] int64 2
    10 CMPLT [6, 9]
    11 WHERE [10, 8, 7]
    12 REDUCE [11, 6] MAX axes=()
    13 CONST [] int64 0
    14 INDEX [4, 13]
    15 STORE [14, 12]
    16 SINK [15] kernel name="max"
  )",
         {{0, Int32s({9})}, {1, Int32s({7, 8, -3, -4, -5, -6})}}, {-3});
}

TEST_F(KernelGraphs, TwoNestsOverOneLoop) {
  const std::string text = R"(
    0 CONST [] weakint 3
    1 STACK [0]
    2 PARAM : int32 [1] slot=0
    3 PARAM : int32 [1] slot=1
    4 RANGE [0] range=(0) type=LOOP
    5 INDEX [2, 4]
    6 INDEX [3, 4]
    7 CONST [] int32 1
    8 ADD [6, 7]
    9 STORE [5, 8]
    10 END [9, 4]
    11 AFTER [2, 10]
    12 INDEX [11, 4]
    13 INDEX [3, 4]
    14 MUL [12, 8]
    15 STORE [13, 14]
    16 END [15, 4]
    17 SINK [10, 16]
  )";
  const auto got = Run(text, {{0, Int32s({0, 0, 0})}, {1, Int32s({1, 2, 3})}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->written.at(0).bytes, Int32s({2, 3, 4}).bytes);
  EXPECT_EQ(got->written.at(1).bytes, Int32s({4, 9, 16}).bytes);
}

TEST_F(KernelGraphs, ItemsOfAGroupMeetAtABarrier) {
  // Each group of four turns its part around in LOCAL memory.
  Expect(R"(
    0 CONST [] weakint 8
    1 STACK [0]
    2 PARAM : int32 [1] slot=0
    3 PARAM : int32 [1] slot=1
    4 CONST [] weakint 4
    5 STACK [4]
    6 BUFFER : int32 [5] slot=0 space=LOCAL
    7 CONST [] weakint 2
    8 RANGE [7] range=(0) type=GLOBAL
    9 RANGE [4] range=(1) type=LOCAL
    10 CONST [] int64 4
    11 MUL [8, 10]
    12 ADD [11, 9]
    13 INDEX [3, 12]
    14 INDEX [6, 9]
    15 STORE [14, 13]
    16 BARRIER [15]
    17 AFTER [6, 16]
    18 CONST [] int64 3
    19 CONST [] int64 -1
    20 MUL [9, 19]
    21 ADD [18, 20]
    22 INDEX [17, 21]
    23 INDEX [2, 12]
    24 STORE [23, 22]
    25 END [24, 8, 9]
    26 SINK [25] kernel name="turn"
  )",
         {{0, Int32s({0, 0, 0, 0, 0, 0, 0, 0})}, {1, Int32s({1, 2, 3, 4, 5, 6, 7, 8})}}, {4, 3, 2, 1, 8, 7, 6, 5});
}

// C[8, 6] = A[8, 12] * B[12, 6]
std::string MatMul(const std::string& info) {
  return absl::StrCat(R"(
    0 CONST [] weakint 8
    1 CONST [] weakint 6
    2 CONST [] weakint 12
    3 STACK [0, 1]
    4 STACK [0, 2]
    5 STACK [2, 1]
    6 PARAM : int32 [3] slot=0
    7 PARAM : int32 [4] slot=1
    8 PARAM : int32 [5] slot=2
    9 RANGE [0] range=(0) type=GLOBAL
    10 RANGE [1] range=(1) type=GLOBAL
    11 RANGE [2] range=(2) type=REDUCE
    12 INDEX [7, 9, 11]
    13 INDEX [8, 11, 10]
    14 MUL [12, 13]
    15 REDUCE [14, 11] ADD axes=()
    16 INDEX [6, 9, 10]
    17 STORE [16, 15]
    18 END [17, 9, 10]
    19 SINK [18] kernel name="matmul")",
                      info, "\n");
}

TEST_F(KernelGraphs, OptOpsChangeNoValue) {
  std::vector<int32_t> a, b, want(48, 0);
  for (int i = 0; i < 96; ++i) a.push_back(i % 7 - 3);
  for (int i = 0; i < 72; ++i) b.push_back(i % 5 - 2);
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 6; ++j) {
      for (int k = 0; k < 12; ++k) want[i * 6 + j] += a[i * 12 + k] * b[k * 6 + j];
    }
  }
  const compiler::HostTensors arguments = {
      {0, Shaped(std::vector<int32_t>(48, 9), {8, 6})}, {1, Shaped(a, {8, 12})}, {2, Shaped(b, {12, 6})}};
  for (const char* opts : {
           "",                                                      // as the compiler chooses
           " opts=(SPLIT 0 (4, 7, 0))",                             // rows in lanes
           " opts=(SPLIT 1 (3, 7, 0), SPLIT 0 (2, 7, 1))",          // a tile
           " opts=(SPLIT 2 (4, 8, 0))",                             // a reduction in lanes
           " opts=(SPLIT 2 (4, 5, 1), SPLIT 2 (2, 8, 0))",          // and in two loops
           " opts=(PADTO 1 (8), SPLIT 1 (8, 7, 0))",                // padded to whole vectors
           " opts=(SWAP 0 (1), SPLIT 0 (2, 9, 1), NOLOCALS 0 ())",  // columns first, threads
           " opts=(SPLIT 0 (2, 3, 0), SPLIT 2 (3, 7, 0))",          // LOCAL is a loop here
           " opts=(FUSE 0 (), SPLIT 0 (16, 7, 0))",                 // lanes across rows
           " opts=(SPLIT 1 (3, 7), SWAP 0 (1), LOCAL 0 (1))",       // a panel of the second operand, copied
           " opts=(PADTO 0 (3, 1), SPLIT 0 (3, 7, 0, 1), SPLIT 1 (6, 7, 0, 2), SPLIT 0 (0, 9))",
           " opts=(SPLIT 2 (3, 8), SPLIT 1 (3, 7), SWAP 1 (2))",  // all rows of what is reduced for one of the output
           " opts=(SPLIT 2 (4, 5), SPLIT 0 (2, 7), SWAP 3 (0))",  // accumulators of the whole output in memory
       }) {
    SCOPED_TRACE(opts);
    Expect(MatMul(opts), arguments, want);
  }
}

TEST_F(KernelGraphs, ABadOptOpIsNamed) {
  struct Row {
    const char* opts;
    const char* text;
  };
  for (const Row& row : {
           Row{" opts=(SPLIT 3 (2, 7, 0))", "axes 0 to 2"},
           Row{" opts=(NOLOCALS 0 (), SPLIT 0 (3, 7, 0))", "OptOp 1"},
           Row{" opts=(SPLIT 0 (3, 7, 0))", "divisor of the axis's 8"},
           Row{" opts=(SPLIT 0 (2, 8, 0))", "an output axis takes UPCAST"},
           Row{" opts=(SPLIT 2 (2, 7, 0))", "a reduced axis takes UNROLL"},
           Row{" opts=(SWAP 0 (2), SWAP 0 (2))", "OptOp 1"},
           Row{" opts=(PADTO 0 (0))", "a multiple of 0"},
           Row{" opts=(TC 0 (0, 0, 1))", "no tensor cores"},
       }) {
    SCOPED_TRACE(row.opts);
    const auto graph = ParseGraph(MatMul(row.opts));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto got = cpu_.Load(*graph, ExactOptions());
    ASSERT_FALSE(got.ok());
    EXPECT_NE(got.status().message().find(row.text), absl::string_view::npos) << got.status();
  }
}

}  // namespace
}  // namespace kiln::testing
