// Kernels as a client writes them, with a loop that nothing needs: an arange, sums of
// masks, a look-up. Small ones equal the interpreter, which runs the loop; large ones
// take linear work.
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "tests/support/compare.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::HostTensors;

// out[i] of `n` is the reduction, by `reduce_op`, of node 20 over r; `value` makes it from i (5),
// r (6), table[r] (8) and places[i] (10).
v1::Graph Kernel(int64_t n, const std::string& dtype, const std::string& reduce_op, const std::string& value) {
  const auto graph = ParseGraph(absl::StrCat(
      "0 CONST [] weakint ", n, "\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=", dtype, "\n3 PARAM [1] slot=1 dtype=", dtype,
      "\n4 PARAM [1] slot=2 dtype=int32\n5 RANGE [0] range=(0) type=GLOBAL\n6 RANGE [0] range=(1) type=REDUCE\n",
      "7 INDEX [3, 6]\n8 LOAD [7]\n9 INDEX [4, 5]\n10 LOAD [9]\n", value, "21 REDUCE [20, 6] ", reduce_op,
      " axes=()\n22 INDEX [2, 5]\n23 STORE [22, 21]\n24 END [23, 5]\n25 SINK [24] kernel name=\"collapse\"\n"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

struct Case {
  const char* name;
  const char* dtype;
  const char* reduce_op;
  const char* value;
};

constexpr char kBetween[] = "11 CONST [] int32 0\n12 CONST [] int32 0\n13 CONST [] int32 0\n14 CAST [10] to=int64\n";

const Case kCases[] = {
    // How many r are less than i: i itself.
    {"arange", "int32", "ADD", "15 CMPLT [6, 5]\n16 CONST [] int32 1\n17 CONST [] int32 0\n18 WHERE [15, 16, 17]\n"},
    {"arange_float", "float32", "ADD",
     "15 CMPLT [6, 5]\n16 CONST [] float32 1.0\n17 CONST [] float32 0.0\n18 WHERE [15, 16, 17]\n"},
    {"arange_half", "float16", "ADD",
     "15 CMPLT [6, 5]\n16 CONST [] float16 1.0\n17 CONST [] float16 0.0\n18 WHERE [15, 16, 17]\n"},
    // Twice places[i] for each r from i on.
    {"prefix_sum_of_one_number", "int32", "ADD",
     "15 CMPLT [6, 5]\n16 CONST [] int32 0\n17 ADD [10, 10]\n18 WHERE [15, 16, 17]\n"},
    // table[places[i]], where there is such a place.
    {"one_hot", "float32", "ADD",
     "15 CMPNE [6, 14]\n16 CONST [] float32 0.0\n17 CONST [] int32 0\n18 WHERE [15, 16, 8]\n"},
    {"one_hot_maximum", "int32", "MAX",
     "15 CMPNE [6, 14]\n16 CONST [] int32 -2147483648\n17 CONST [] int32 0\n18 WHERE [15, 16, 8]\n"},
};

std::string Text(const Case& test) {
  return absl::StrCat(kBetween, test.value, "19 CONST [] int32 0\n20 CAST [18] to=", test.dtype, "\n");
}

HostTensors Arguments(const Case& test, int64_t n) {
  const DType dtype = std::string(test.dtype) == "int32"     ? DType::kInt32
                      : std::string(test.dtype) == "float32" ? DType::kFloat32
                                                             : DType::kFloat16;
  const auto size = static_cast<size_t>(n * compiler::ItemSize(dtype));
  HostTensors arguments;
  arguments[0] = {dtype, {n}, std::string(size, '\x5A')};
  arguments[1] = {dtype, {n}, std::string(size, '\0')};
  arguments[2] = {DType::kInt32, {n}, std::string(static_cast<size_t>(n) * 4, '\0')};
  for (int64_t i = 0; i < n; ++i) {
    const auto place = static_cast<int32_t>((i * 7 + 3) % (n + 4) - 2);  // some outside
    std::memcpy(arguments[2].bytes.data() + 4 * i, &place, 4);
    const float real = static_cast<float>(i) / 2;
    const auto whole = static_cast<int32_t>(1000 - i);
    if (dtype == DType::kFloat32) std::memcpy(arguments[1].bytes.data() + 4 * i, &real, 4);
    if (dtype == DType::kInt32) std::memcpy(arguments[1].bytes.data() + 4 * i, &whole, 4);
  }
  return arguments;
}

TEST(CollapseKernels, SmallOnesEqualTheInterpreter) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    for (const int64_t n : {1, 2, 13}) {
      const v1::Graph graph = Kernel(n, test.dtype, test.reduce_op, Text(test));
      const auto want = RunInterpreted(graph, Arguments(test, n));
      const auto got = CpuEngine().Run(graph, Arguments(test, n), ExactOptions());
      ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
      EXPECT_EQ(CompareOutcomes(*got, *want, {0, /*zero_signs=*/false}), "") << n;
    }
  }
}

TEST(CollapseKernels, LargeOnesTakeLinearWork) {
  constexpr int64_t kSize = 1 << 20;
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    const v1::Graph graph = Kernel(kSize, test.dtype, test.reduce_op, Text(test));
    v1::Target target;
    target.set_kind(v1::Target::NULL_TARGET);
    const auto executable = compiler::Compile(graph, target, compiler::Options());
    ASSERT_TRUE(executable.ok()) << executable.status();
    EXPECT_LT(executable->cost().flops(), 20 * kSize);
    if (std::string(test.name) != "arange") continue;
    const auto got = CpuEngine().Run(graph, Arguments(test, kSize), ExactOptions());
    ASSERT_TRUE(got.ok()) << got.status();
    for (int32_t i = 0; i < kSize; i += 999) {
      int32_t value = 0;
      std::memcpy(&value, got->written.at(0).bytes.data() + 4 * i, 4);
      ASSERT_EQ(value, i);
    }
  }
}

// Asked-for OptOps name the axes as they are written.
TEST(CollapseKernels, OptOpsKeepTheLoops) {
  v1::Graph graph = Kernel(64, "int32", "ADD", Text(kCases[0]));
  v1::OptOp& opt = *graph.mutable_nodes(graph.nodes_size() - 1)->mutable_kernel()->add_opts();
  opt.set_kind(v1::OptOp::SPLIT);
  opt.set_axis(1);
  for (int64_t number : {4, static_cast<int>(v1::AXIS_UNROLL), 0}) opt.add_arg(number);
  const auto got = CpuEngine().Run(graph, Arguments(kCases[0], 64), ExactOptions());
  const auto want = RunInterpreted(graph, Arguments(kCases[0], 64));
  ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
  EXPECT_EQ(CompareOutcomes(*got, *want, Tolerance()), "");
}

}  // namespace
}  // namespace kiln::testing
