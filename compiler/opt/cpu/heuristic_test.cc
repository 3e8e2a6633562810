// What the rules choose for kernels of a few kinds, on a CPU of 32-byte vectors.
#include "compiler/opt/cpu/heuristic.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/substitute.h"
#include "compiler/opt/schedule_text.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

class HeuristicTest : public testing::Test {
 protected:
  std::string Chosen(const std::string& kernel) {
    v1::Target target;
    target.mutable_tuning()->set_vector_bytes(32);
    return ToString(ChooseOpts(ReadText(graph_, kernel), target));
  }

  Graph graph_;
};

// out[i] = x[i * $1] + x[i * $1], i < $0.
std::string Doubled(int64_t items, int64_t stride) {
  return absl::Substitute(R"(
    0 CONST : weakint [] 1048576
    1 STACK : weakint [0]
    2 PARAM : float32 [1] slot=0
    3 CONST : int64 [] $0
    4 RANGE : int64 [3] range=(0) type=LOOP
    5 INDEX [2, 4]
    6 PARAM : float32 [1] slot=1
    7 CONST : int64 [] $1
    8 MUL : int64 [4, 7]
    9 INDEX [6, 8]
    10 LOAD [9]
    11 ADD [10, 10]
    12 STORE [5, 11]
    13 END [12, 4]
    14 SINK [13] kernel name="doubled"
  )",
                          items, stride);
}

// out[i] = the sum over j < 512 of x[i * $0 + j * $1], i < 1024.
std::string Sums(int64_t row, int64_t column) {
  return absl::Substitute(R"(
    0 CONST : weakint [] 1048576
    1 STACK : weakint [0]
    2 PARAM : float32 [1] slot=0
    3 CONST : int64 [] 1024
    4 RANGE : int64 [3] range=(0) type=LOOP
    5 INDEX [2, 4]
    6 PARAM : float32 [1] slot=1
    7 CONST : int64 [] 512
    8 RANGE : int64 [7] range=(1) type=REDUCE
    9 CONST : int64 [] $0
    10 MUL : int64 [4, 9]
    11 CONST : int64 [] $1
    12 MUL : int64 [8, 11]
    13 ADD : int64 [10, 12]
    14 INDEX [6, 13]
    15 LOAD [14]
    16 REDUCE [15, 8] ADD axes=()
    17 STORE [5, 16]
    18 END [17, 4]
    19 SINK [18] kernel name="sums"
  )",
                          row, column);
}

// out[i, j] = the sum over k < 512 of x[i, k] * w[k, j], i < rows, j < columns, for any number of rows from `least` to
// `most`.
std::string Rows(int64_t least, int64_t most, int64_t columns) {
  return absl::Substitute(R"(
    0 STACK : weakint []
    1 PARAM : int32 [0] slot=3 space=ALU name="rows" min=$0 max=$1
    2 CAST : int64 [1] to=int64
    3 RANGE : int64 [2] range=(0) type=LOOP
    4 CONST : int64 [] $2
    5 RANGE : int64 [4] range=(1) type=LOOP
    6 CONST : int64 [] 512
    7 RANGE : int64 [6] range=(2) type=REDUCE
    8 CONST : weakint [] 1048576
    9 STACK : weakint [8]
    10 PARAM : float32 [9] slot=0
    11 MUL : int64 [3, 4]
    12 ADD : int64 [11, 5]
    13 INDEX [10, 12]
    14 PARAM : float32 [9] slot=1
    15 MUL : int64 [3, 6]
    16 ADD : int64 [15, 7]
    17 INDEX [14, 16]
    18 LOAD [17]
    19 PARAM : float32 [9] slot=2
    20 MUL : int64 [7, 4]
    21 ADD : int64 [20, 5]
    22 INDEX [19, 21]
    23 LOAD [22]
    24 MUL [18, 23]
    25 REDUCE [24, 7] ADD axes=()
    26 STORE [13, 25]
    27 END [26, 3, 5]
    28 SINK [27] kernel name="rows"
  )",
                          least, most, columns);
}

// out[i] = the sum over j of x[i * n + j], i < n, for any n up to `most`.
std::string SumsOfAnyLength(int64_t most) {
  return absl::Substitute(R"(
    0 STACK : weakint []
    1 PARAM : int32 [0] slot=2 space=ALU name="n" min=1 max=$0
    2 CAST : int64 [1] to=int64
    3 RANGE : int64 [2] range=(0) type=LOOP
    4 CONST : weakint [] 1048576
    5 STACK : weakint [4]
    6 PARAM : float32 [5] slot=0
    7 INDEX [6, 3]
    8 RANGE : int64 [2] range=(1) type=REDUCE
    9 PARAM : float32 [5] slot=1
    10 MUL : int64 [3, 2]
    11 ADD : int64 [10, 8]
    12 INDEX [9, 11]
    13 LOAD [12]
    14 REDUCE [13, 8] ADD axes=()
    15 STORE [7, 14]
    16 END [15, 3]
    17 SINK [16] kernel name="sums"
  )",
                          most);
}

// out[i, j] = x[i, j] + x[i, j], i < n, j < n, for any n up to 64.
constexpr char kDoubledSquare[] = R"(
    0 STACK : weakint []
    1 PARAM : int32 [0] slot=2 space=ALU name="n" min=1 max=64
    2 CAST : int64 [1] to=int64
    3 RANGE : int64 [2] range=(0) type=LOOP
    4 RANGE : int64 [2] range=(1) type=LOOP
    5 CONST : weakint [] 1048576
    6 STACK : weakint [5]
    7 PARAM : float32 [6] slot=0
    8 MUL : int64 [3, 2]
    9 ADD : int64 [8, 4]
    10 INDEX [7, 9]
    11 PARAM : float32 [6] slot=1
    12 INDEX [11, 9]
    13 LOAD [12]
    14 ADD [13, 13]
    15 STORE [10, 14]
    16 END [15, 3, 4]
    17 SINK [16] kernel name="doubled"
  )";

// Four vectors an iteration.
TEST_F(HeuristicTest, NeighboursAreLanes) { EXPECT_EQ(Chosen(Doubled(4096, 1)), "SPLIT(0, 32, UPCAST); THREAD(0)"); }
TEST_F(HeuristicTest, WhatFitsNoVectorStaysALoop) { EXPECT_EQ(Chosen(Doubled(1, 1)), "THREAD(0)"); }
TEST_F(HeuristicTest, SumsOfColumnsAreLanesOfTheOutput) {
  EXPECT_EQ(Chosen(Sums(1, 1024)), "SPLIT(0, 8, UPCAST, dim 1); SPLIT(1, 4, UNROLL); SWAP(0, 1)");
}
// Eight vectors, so that additions do not wait for each other.
TEST_F(HeuristicTest, SumsOfRowsAreLanesOfTheSum) {
  EXPECT_EQ(Chosen(Sums(512, 1)), "SPLIT(1, 64, UNROLL); THREAD(0)");
}
// Four rows at a time inside of the columns, so that each column is read for all rows together.
TEST_F(HeuristicTest, RowsThatEachRunCountsAreTiled) {
  EXPECT_EQ(Chosen(Rows(1, 64, 1024)),
            "PADTO(0, 4, clamp); PADTO(1, 24); SPLIT(0, 4, UPCAST); SPLIT(1, 8, UPCAST, dim 2); "
            "SPLIT(1, 3, UPCAST, dim 1); SWAP(0, 1); THREAD(0)");
}
TEST_F(HeuristicTest, RowsOfWhichThereMayBeNoneStayALoop) {
  EXPECT_EQ(Chosen(Rows(0, 64, 1024)), "SPLIT(1, 32, UPCAST); THREAD(0)");
}
// So that a run of many rows has turns to share.
TEST_F(HeuristicTest, OfFewColumnsTheRowsAreShared) {
  EXPECT_EQ(Chosen(Rows(1, 64, 10)),
            "PADTO(0, 4, clamp); PADTO(1, 16); SPLIT(0, 4, UPCAST); SPLIT(1, 8, UPCAST, dim 2); "
            "SPLIT(1, 2, UPCAST, dim 1); THREAD(0)");
}
// An iteration over the columns would go through all of them.
TEST_F(HeuristicTest, RowsThatMayBeVeryManyAreShared) {
  EXPECT_EQ(Chosen(Rows(1, 10'000'000, 1024)),
            "PADTO(0, 4, clamp); PADTO(1, 24); SPLIT(0, 4, UPCAST); SPLIT(1, 8, UPCAST, dim 2); "
            "SPLIT(1, 3, UPCAST, dim 1); THREAD(0)");
}
// The last vector is masked.
TEST_F(HeuristicTest, NeighboursThatEachRunCountsAreLanes) {
  EXPECT_EQ(Chosen(SumsOfAnyLength(64)), "PADTO(1, 8); SPLIT(1, 8, UNROLL); THREAD(0)");
  EXPECT_EQ(Chosen(SumsOfAnyLength(1 << 20)), "PADTO(1, 32); SPLIT(1, 32, UNROLL); THREAD(0)");
  EXPECT_EQ(Chosen(kDoubledSquare), "PADTO(1, 8); SPLIT(1, 8, UPCAST); THREAD(0)");
}
TEST_F(HeuristicTest, OfTooFewNeighboursThereAreNoLanes) { EXPECT_EQ(Chosen(SumsOfAnyLength(3)), "THREAD(0)"); }

}  // namespace
}  // namespace kiln::compiler
