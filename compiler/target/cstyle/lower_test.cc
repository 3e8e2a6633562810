// What a language has no words for is written in others, or refused with its name.
#include "compiler/target/cstyle/lower.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/substitute.h"
#include "base/error.h"
#include "compiler/interp/kernel_eval.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/linearize.h"
#include "compiler/testing/read_text.h"

namespace kiln::compiler {
namespace {

// out[i] = $1 of x[i], of dtype $0; i < 8, in the two loops of OPT, of which the inner is `$2`.
constexpr char kMap[] = R"(
  0 CONST : weakint [] 8
  1 STACK : weakint [0]
  2 PARAM : $0 [1] slot=0
  3 CONST : int64 [] 2
  4 RANGE : int64 [3] range=(0) type=LOOP
  5 CONST : int64 [] 4
  6 MUL : int64 [4, 5]
  7 RANGE : int64 [5] range=($2) type=$3
  8 ADD : int64 [6, 7]
  9 INDEX [2, 8]
  10 PARAM : $0 [1] slot=1
  11 INDEX [10, 8]
  12 LOAD [11]
  13 $1
  14 STORE [9, 13]
  15 END [14, 4, 7]
  16 SINK [15] kernel name="map"
)";

class LowerForDialectTest : public testing::Test {
 protected:
  UOp* Linear(const char* dtype, const char* value, bool lanes = false) {
    const std::string id = lanes ? std::to_string(kLaneIds) : "1";
    UOp* sink = ReadText(graph_, absl::Substitute(kMap, dtype, value, id, lanes ? "UPCAST" : "LOOP"));
    return Linearize(graph_, lanes ? Expand(graph_, sink) : sink);
  }
  static std::vector<uint64_t> Out(UOp* linear) {
    KernelMemory memory = {{0, std::vector<uint64_t>(8, 99)}, {1, {1, 2, 3, 4, 5, 6, 7, 8}}};
    const absl::Status status = EvalKernel(linear, memory);
    EXPECT_TRUE(status.ok()) << status;
    return memory[0];
  }

  Graph graph_;
};

// Neighbours in memory stay one LOAD and one STORE of a vector; what is computed of them is scalars.
TEST_F(LowerForDialectTest, LanesBecomeScalarsBetweenLoadsOfVectors) {
  for (const char* language : {"opencl", "cuda", "metal"}) {
    const auto lowered = LowerForDialect(graph_, Linear("int32", "MUL [12, 12]", true), *FindDialect(language));
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(CountOf(*lowered, Op::LOAD), 1u);
    EXPECT_EQ(CountOf(*lowered, Op::STORE), 1u);
    for (const UOp* uop : Toposort(*lowered)) {
      if (uop->op() == Op::MUL) {
        EXPECT_TRUE(uop->shape().empty());
      }
    }
  }
}

TEST_F(LowerForDialectTest, LanesAreRefusedWhereThereAreNoVectors) {
  const auto lowered = LowerForDialect(graph_, Linear("int32", "MUL [12, 12]", true), *FindDialect("c"));
  ASSERT_FALSE(lowered.ok());
  EXPECT_EQ(DetailOf(lowered.status())->code(), v1::UNSUPPORTED_OP);
  EXPECT_EQ(lowered.status().message(), "STACK of shape (4,) in c");
}

TEST_F(LowerForDialectTest, ScalarsStayWhatTheyAre) {
  const auto lowered = LowerForDialect(graph_, Linear("int32", "MUL [12, 12]"), *FindDialect("c"));
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(Out(*lowered), (std::vector<uint64_t>{1, 4, 9, 16, 25, 36, 49, 64}));
}

TEST_F(LowerForDialectTest, AFunctionThatTheLanguageLacksIsDecomposed) {
  UOp* linear = Linear("float32", "EXP2 [12]");
  for (const char* language : {"c", "cuda", "metal"}) {
    const auto lowered = LowerForDialect(graph_, linear, *FindDialect(language));
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    for (const UOp* uop : Toposort(*lowered)) {
      if (uop->op() == Op::EXP2) {
        EXPECT_NE(FindDialect(language)->FunctionOf(Op::EXP2, DType::kFloat32), nullptr);
      }
    }
  }
}

TEST_F(LowerForDialectTest, ATypeThatTheLanguageLacksIsRefusedByName) {
  const auto lowered = LowerForDialect(graph_, Linear("float64", "ADD [12, 12]"), *FindDialect("metal"));
  ASSERT_FALSE(lowered.ok());
  EXPECT_EQ(DetailOf(lowered.status())->code(), v1::UNSUPPORTED_OP);
  EXPECT_EQ(lowered.status().message(), "metal has no float64");
}

}  // namespace
}  // namespace kiln::compiler
