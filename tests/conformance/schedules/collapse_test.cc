// Quadratic of quadratic size: small ones equal the interpreter, large ones
// take linear work and give what they mean.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "tests/conformance/schedules/quadratic.h"
#include "tests/support/arguments.h"
#include "tests/support/compare.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::HostTensors;

template <typename T>
HostTensor Host(DType dtype, const std::vector<T>& values, compiler::Shape shape) {
  HostTensor tensor{dtype, std::move(shape), std::string(values.size() * sizeof(T), '\0')};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

template <typename T>
std::vector<T> Values(const HostTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

double WorkOf(const v1::Graph& graph) {
  v1::Target target;
  target.set_kind(v1::Target::NULL_TARGET);
  const auto executable = compiler::Compile(graph, target, compiler::Options());
  EXPECT_TRUE(executable.ok()) << executable.status();
  return executable.ok() ? static_cast<double>(executable->cost().flops()) : 0;
}

HostTensor RunOnCpu(const Quadratic& c, const HostTensors& arguments = {}) {
  auto outcome = CpuEngine().Run(c.graph(), arguments, ExactOptions());
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.ok() ? outcome->results[0] : HostTensor();
}

struct Case {
  const char* name;
  std::function<Node(Quadratic&, int64_t n)> make;
  // Work on 64 elements over work on 16: 4 where it is linear.
  double growth = 5;
};

Node Column(Quadratic& c, int64_t n) { return c.Reshape(c.Arange(n, DType::kInt32), {n, 1}); }
Node Row(Quadratic& c, int64_t n) { return c.Reshape(c.Arange(n, DType::kInt32), {1, n}); }
// A mask (n, n) and a number for each row: sums of the mask's rows.
Node CountRows(Quadratic& c, Node mask, int64_t n) { return c.Reduced(c.Cast(mask, DType::kInt32), v1::ADD, 1, {n}); }
Node Scaled(Quadratic& c, Node x, int64_t by) { return c.Add(v1::MUL, {x, c.Number(DType::kInt32, by)}); }
Node Plus(Quadratic& c, Node x, int64_t by) { return c.Add(v1::ADD, {x, c.Number(DType::kInt32, by)}); }
Node Table(Quadratic& c, int64_t n, DType dtype) { return c.Param(0, dtype, {n}); }
Node Places(Quadratic& c, int64_t n, DType dtype = DType::kInt32) { return c.Param(1, dtype, {n}); }

const Case kCases[] = {
    {"arange_int32", [](Quadratic& c, int64_t n) { return c.Arange(n, DType::kInt32); }},
    {"arange_int64", [](Quadratic& c, int64_t n) { return c.Arange(n, DType::kInt64); }},
    {"arange_uint8", [](Quadratic& c, int64_t n) { return c.Arange(n, DType::kUint8); }},
    {"arange_float32", [](Quadratic& c, int64_t n) { return c.Arange(n, DType::kFloat32); }},
    {"arange_float16", [](Quadratic& c, int64_t n) { return c.Arange(n, DType::kFloat16); }},
    {"prefix_sum_of_arange", [](Quadratic& c, int64_t n) { return c.PrefixSum(c.Arange(n, DType::kInt32), n); }},
    {"prefix_sum_of_scalar",
     [](Quadratic& c, int64_t n) { return c.PrefixSum(c.Expand(c.Param(0, DType::kFloat32, {1}), {n}), n); }},
    {"gather",
     [](Quadratic& c, int64_t n) {
       return c.Gather(Table(c, n, DType::kFloat32), n, Places(c, n), n, DType::kFloat32, DType::kInt32);
     }},
    {"gather_int64_places",
     [](Quadratic& c, int64_t n) {
       return c.Gather(Table(c, n, DType::kInt16), n, Places(c, n, DType::kInt64), n, DType::kInt16, DType::kInt64);
     }},
    {"gather_float16",
     [](Quadratic& c, int64_t n) {
       return c.Gather(Table(c, n, DType::kFloat16), n, Places(c, n, DType::kInt8), n, DType::kFloat16, DType::kInt8);
     }},
    {"gather_of_computed",
     [](Quadratic& c, int64_t n) {
       const Node x = Table(c, n, DType::kInt32);
       return c.Gather(c.Add(v1::ADD, {c.Add(v1::MUL, {x, x}), c.Flip(x, {1})}), n, Places(c, n), n, DType::kInt32,
                       DType::kInt32);
     }},
    {"gather_of_gather",
     [](Quadratic& c, int64_t n) {
       const Node once = c.Gather(Table(c, n, DType::kInt32), n, Places(c, n), n, DType::kInt32, DType::kInt32);
       return c.Gather(once, n, Places(c, n), n, DType::kInt32, DType::kInt32);
     }},
    {"embedding",
     [](Quadratic& c, int64_t n) {
       return c.Embedding(c.Param(0, DType::kFloat32, {n, 3}), n, 3, Places(c, n), n, DType::kFloat32);
     }},
    {"max_of_one_hot",
     [](Quadratic& c, int64_t n) {
       const Node mask = c.OneHot(Places(c, n), n, n, DType::kInt32);
       const Node least = c.Number(DType::kInt32, std::numeric_limits<int32_t>::min());
       const Node value = c.Add(v1::WHERE, {mask, c.Reshape(Table(c, n, DType::kInt32), {1, n}), least});
       return c.Reduced(value, v1::MAX, 1, {n});
     }},
    {"rows_of_tril", [](Quadratic& c, int64_t n) { return CountRows(c, c.Less(Row(c, n), Column(c, n)), n); }},
    {"rows_of_triu",
     [](Quadratic& c, int64_t n) { return CountRows(c, c.Less(Column(c, n), Plus(c, Row(c, n), -2)), n); }},
    {"rows_of_a_band",
     [](Quadratic& c, int64_t n) {
       const Node low = c.Less(Column(c, n), Plus(c, Row(c, n), 2));
       return CountRows(c, c.Add(v1::AND, {low, c.Less(Scaled(c, Row(c, n), 3), Scaled(c, Column(c, n), 4))}), n);
     }},
    {"rows_of_multiples",
     [](Quadratic& c, int64_t n) { return CountRows(c, c.Equal(Scaled(c, Row(c, n), 3), Column(c, n)), n); }},
    {"rows_of_a_hole",
     [](Quadratic& c, int64_t n) { return CountRows(c, c.Add(v1::CMPNE, {Row(c, n), Column(c, n)}), n); }},
    {"rows_by_quotient",
     [](Quadratic& c, int64_t n) {
       const Node q = c.Add(v1::FLOORDIV, {Row(c, n), c.Number(DType::kInt32, 4)});
       return CountRows(c, c.Less(q, Column(c, n)), n);
     }},
    {"any_of_rows",
     [](Quadratic& c, int64_t n) {
       return c.Reduced(c.Less(Scaled(c, Row(c, n), 2), Plus(c, Column(c, n), -3)), v1::MAX, 1, {n});
     }},
    {"maximum_of_choices",
     [](Quadratic& c, int64_t n) {
       const Node value = c.Reshape(Places(c, n), {n, 1});
       return c.Reduced(c.Add(v1::WHERE, {c.Less(Row(c, n), Column(c, n)), value, c.Number(DType::kInt32, 3)}), v1::MAX,
                        1, {n});
     }},
    {"weighted_rows",
     [](Quadratic& c, int64_t n) {
       const Node value = c.Reshape(Places(c, n), {n, 1});
       const Node mask = c.Cast(c.Less(Row(c, n), Column(c, n)), DType::kInt32);
       return c.Reduced(c.Add(v1::ADD, {c.Add(v1::MUL, {mask, value}), value}), v1::ADD, 1, {n});
     }},
    // No closed form: the work stays quadratic, the mask costs nothing extra.
    {"prefix_sum", [](Quadratic& c, int64_t n) { return c.PrefixSum(Table(c, n, DType::kInt32), n); }, 17},
    {"scatter_add",
     [](Quadratic& c, int64_t n) {
       return c.ScatterAdd(Table(c, n, DType::kFloat32), n, Places(c, n), c.Param(2, DType::kFloat32, {n}), n,
                           DType::kFloat32);
     },
     17},
};

class CollapseTest : public ::testing::TestWithParam<Case> {};

TEST_P(CollapseTest, EqualsTheInterpreter) {
  CpuEngine cpu;
  for (const int64_t n : {1, 2, 3, 5, 8, 17}) {
    Quadratic c;
    c.Return(GetParam().make(c, n));
    const auto arguments = RandomArguments(c.graph(), static_cast<uint64_t>(n));
    ASSERT_TRUE(arguments.ok()) << arguments.status();
    const auto want = RunInterpreted(c.graph(), *arguments);
    const auto got = cpu.Run(c.graph(), *arguments, ExactOptions());
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(CompareOutcomes(*got, *want, {0, /*zero_signs=*/false}), "") << "n = " << n << "\n"
                                                                           << PrintGraph(c.graph());
  }
}

TEST_P(CollapseTest, TheWorkGrowsAsItShould) {
  const auto work = [](int64_t n) {
    Quadratic c;
    c.Return(GetParam().make(c, n));
    return WorkOf(c.graph());
  };
  EXPECT_LE(work(64), GetParam().growth * work(16));
}

INSTANTIATE_TEST_SUITE_P(All, CollapseTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Collapse, AnArangeOf802816) {
  constexpr int64_t n = 802816;
  Quadratic c;
  c.Return(c.Arange(n, DType::kInt32));
  EXPECT_LE(WorkOf(c.graph()), 4.0 * n);
  const std::vector<int32_t> got = Values<int32_t>(RunOnCpu(c));
  ASSERT_EQ(got.size(), static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(got[i], i);
}

TEST(Collapse, RowsOfATableOf50000) {
  constexpr int64_t k = 50000, width = 16, d = 300;
  Quadratic c;
  c.Return(c.Embedding(c.Param(0, DType::kFloat32, {k, width}), k, width, c.Param(1, DType::kInt32, {d}), d,
                       DType::kFloat32));
  EXPECT_LE(WorkOf(c.graph()), 20.0 * d * width);
  std::vector<float> table(k * width);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 8191) - 4000;
  std::vector<int32_t> places(d);
  for (int64_t i = 0; i < d; ++i) places[i] = static_cast<int32_t>(i * 7919 % (k + 40) - 20);  // some outside
  const std::vector<float> got = Values<float>(
      RunOnCpu(c, {{0, Host(DType::kFloat32, table, {k, width})}, {1, Host(DType::kInt32, places, {d})}}));
  for (int64_t i = 0; i < d; ++i) {
    const bool inside = places[i] >= 0 && places[i] < k;
    for (int64_t j = 0; j < width; ++j)
      ASSERT_EQ(got[i * width + j], inside ? table[places[i] * width + j] : 0) << i << " " << j;
  }
}

// A table is looked up, not summed: what lies in other rows does not matter.
TEST(Collapse, ALookUpSeesNoOtherRow) {
  Quadratic c;
  c.Return(
      c.Gather(c.Param(0, DType::kFloat32, {4}), 4, c.Param(1, DType::kInt32, {4}), 4, DType::kFloat32, DType::kInt32));
  const float inf = INFINITY, nan = NAN;
  const std::vector<float> got = Values<float>(RunOnCpu(c, {{0, Host<float>(DType::kFloat32, {1, inf, nan, 4}, {4})},
                                                            {1, Host<int32_t>(DType::kInt32, {0, 3, 1, 2}, {4})}}));
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[1], 4);
  EXPECT_EQ(got[2], inf);
  EXPECT_TRUE(std::isnan(got[3]));
}

// Sums that are no look-up keep what IEEE says of 0 * inf.
TEST(Collapse, AMaskedSumOfInfinitiesIsNaN) {
  Quadratic c;
  const Node value = c.Reshape(c.Param(0, DType::kFloat32, {3}), {3, 1});
  const Node mask = c.Cast(c.Less(Row(c, 3), Column(c, 3)), DType::kFloat32);
  c.Return(c.Reduced(c.Add(v1::MUL, {mask, value}), v1::ADD, 1, {3}));
  const std::vector<float> got =
      Values<float>(RunOnCpu(c, {{0, Host<float>(DType::kFloat32, {INFINITY, 5, INFINITY}, {3})}}));
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], 5);
  EXPECT_TRUE(std::isnan(got[2]));
}

}  // namespace
}  // namespace kiln::testing
