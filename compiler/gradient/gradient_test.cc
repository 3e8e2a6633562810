// What differences cannot tell: kinks, stops, zeros, shares, faults. The rules'
// values are tests/gradient's.
#include "compiler/gradient/gradient.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {
namespace {

constexpr char kX[] = "0 CONST [] weakint 4\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=float32\n";

v1::GradientRequest Request(const std::string& text, std::vector<uint32_t> wrt = {0}) {
  v1::GradientRequest request;
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  *request.mutable_graph() = *std::move(graph);
  request.mutable_wrt_slot()->Add(wrt.begin(), wrt.end());
  return request;
}

// The sum of `lines`, whose last node is `last`, of x = slot 0, float32 [4].
std::string SumOf(const std::string& lines, int last) {
  return kX + lines + std::to_string(last + 1) + " REDUCE [" + std::to_string(last) + "] ADD axes=(0)\n" +
         std::to_string(last + 2) + " TUPLE [" + std::to_string(last + 1) + "]\n";
}

HostTensor Floats(const std::vector<float>& values) {
  HostTensor tensor{DType::kFloat32, {static_cast<int64_t>(values.size())}, ""};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  return tensor;
}

// The gradient's first result for these arguments.
std::vector<float> Evaluate(const v1::GradientRequest& request, const HostTensors& arguments) {
  const auto response = Gradient(request, Limits());
  EXPECT_TRUE(response.ok()) << response.status();
  if (!response.ok()) return {};
  Graph graph;
  auto root = FromWire(response->graph(), Limits(), graph);
  EXPECT_TRUE(root.ok()) << root.status();
  const auto run = Interpret(*root, arguments);
  EXPECT_TRUE(run.ok()) << run.status();
  if (!run.ok()) return {};
  std::vector<float> values(run->results[0].bytes.size() / 4);
  std::memcpy(values.data(), run->results[0].bytes.data(), run->results[0].bytes.size());
  return values;
}

using Values = std::vector<float>;

TEST(Gradient, OfAMaximumGoesToTheGreaterAndIsSharedByEquals) {
  const auto relu = Request(SumOf("3 CONST [] float32 0.0\n4 MAX [2, 3]\n", 4));
  EXPECT_EQ(Evaluate(relu, {{0, Floats({-1, 0, -0.0f, 3})}}), (Values{0, 0.5, 0.5, 1}));
  const auto itself = Request(SumOf("3 MAX [2, 2]\n", 3));
  EXPECT_EQ(Evaluate(itself, {{0, Floats({1, 2, 3, 4})}}), (Values{1, 1, 1, 1}));
  const auto greatest = Request(std::string(kX) + "3 REDUCE [2] MAX axes=(0)\n4 TUPLE [3]\n");
  EXPECT_EQ(Evaluate(greatest, {{0, Floats({7, 2, 7, 1})}}), (Values{0.5, 0, 0.5, 0}));
}

TEST(Gradient, OfAProductNeedsNoDivision) {
  const auto product = Request(std::string(kX) + "3 REDUCE [2] MUL axes=(0)\n4 TUPLE [3]\n");
  EXPECT_EQ(Evaluate(product, {{0, Floats({2, 0, 3, 5})}}), (Values{0, 30, 0, 0}));
  EXPECT_EQ(Evaluate(product, {{0, Floats({2, 0, 0, 5})}}), (Values{0, 0, 0, 0}));
}

TEST(Gradient, StopsAtDetachAndAtIntegers) {
  const auto detached = Request(SumOf("3 DETACH [2]\n4 MUL [2, 3]\n", 4));
  EXPECT_EQ(Evaluate(detached, {{0, Floats({1, 2, 3, 4})}}), (Values{1, 2, 3, 4}));
  const auto integers = Request(SumOf("3 CAST [2] to=int32\n4 CAST [3] to=float32\n5 MUL [2, 4]\n", 5));
  EXPECT_EQ(Evaluate(integers, {{0, Floats({1.5, 2.5, -3.5, 4})}}), (Values{1, 2, -3, 4}));
}

TEST(Gradient, OfPowersAtTheirEdgesIsFinite) {
  const auto to_zero = Request(SumOf("3 CONST [] float32 0.0\n4 POW [2, 3]\n", 4));
  EXPECT_EQ(Evaluate(to_zero, {{0, Floats({0, 1, -2, 3})}}), (Values{0, 0, 0, 0}));
  const auto of_zero = Request(SumOf("3 CONST [] float32 0.0\n4 POW [3, 2]\n", 4));
  EXPECT_EQ(Evaluate(of_zero, {{0, Floats({1, 2, 0.5, 4})}}), (Values{0, 0, 0, 0}));
}

TEST(Gradient, BySlotsThatTheResultDoesNotUseIsZeros) {
  const auto request =
      Request(std::string(kX) + "3 PARAM [1] slot=7 dtype=float32\n4 REDUCE [3] ADD axes=(0)\n5 TUPLE [2, 4]\n", {0});
  auto second = request;
  second.set_result(1);
  EXPECT_EQ(Evaluate(second, {{0, Floats({1, 2, 3, 4})}, {7, Floats({1, 2, 3, 4})}}), (Values{0, 0, 0, 0}));
}

TEST(Gradient, ABufferAndAParamOfOneSlotAreOneParameter) {
  const auto request = Request(SumOf("3 BUFFER [1] slot=0 dtype=float32\n4 MUL [2, 3]\n", 4));
  EXPECT_EQ(Evaluate(request, {{0, Floats({1, 2, 3, 4})}}), (Values{2, 4, 6, 8}));
}

TEST(Gradient, IsWeightedByTheCotangentAndKeepsTheResults) {
  auto request = Request(std::string(kX) + "3 MUL [2, 2]\n4 TUPLE [3]\n");
  request.set_cotangent_slot(3);
  EXPECT_EQ(Evaluate(request, {{0, Floats({1, 2, 3, 4})}, {3, Floats({1, 0, -1, 10})}}), (Values{2, 0, -6, 80}));
  request.set_include_results(true);
  EXPECT_EQ(Evaluate(request, {{0, Floats({1, 2, 3, 4})}, {3, Floats({1, 0, -1, 10})}}), (Values{1, 4, 9, 16}));
  const auto response = Gradient(request, Limits());
  ASSERT_EQ(response->results_size(), 2);
  EXPECT_EQ(response->results(1).dtype(), v1::FLOAT32);
  EXPECT_EQ(response->results(1).shape(0), 4);
  EXPECT_EQ(response->results(1).bytes(), 16u);
}

TEST(Gradient, OfNarrowFloatsIsNarrow) {
  const auto request = Request(
      "0 CONST [] weakint 4\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=bfloat16\n3 CAST [2] to=float32\n4 MUL [3, 3]\n"
      "5 REDUCE [4] ADD axes=(0)\n6 TUPLE [5]\n");
  const auto response = Gradient(request, Limits());
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->results(0).dtype(), v1::BFLOAT16);
}

struct Fault {
  const char* name;
  v1::GradientRequest request;
  v1::ErrorCode code;
  int node = -1;  // or the slot, for faults of the request
  int slot = -1;
};

TEST(Gradient, NamesWhatItCannotDifferentiate) {
  const std::string sum = SumOf("", 2);
  auto no_result = Request(sum);
  no_result.set_result(1);
  auto used = Request(sum);
  used.set_cotangent_slot(0);
  auto far = Request(sum);
  far.set_cotangent_slot(65536);
  const std::string index = "3 PARAM [1] slot=1 dtype=int32\n";
  const Fault faults[] = {
      {"no such result", no_result, v1::BAD_ARGUMENT},
      {"an integer result", Request(std::string(kX) + "3 CAST [2] to=int32\n4 TUPLE [3, 2]\n"), v1::DTYPE_MISMATCH, 3},
      {"by nothing", Request(sum, {}), v1::BAD_ARGUMENT},
      {"by no slot", Request(sum, {0, 5}), v1::UNKNOWN_ARGUMENT, -1, 5},
      {"by an integer",
       Request(std::string(kX) + index + "4 INDEX [2, 3]\n5 REDUCE [4] ADD axes=(0)\n6 TUPLE [5]\n", {1}),
       v1::DTYPE_MISMATCH, -1, 1},
      {"many elements", Request(std::string(kX) + "3 TUPLE [2]\n"), v1::BAD_ARGUMENT},
      {"a cotangent in use", used, v1::BAD_ARGUMENT, -1, 0},
      {"a cotangent too far", far, v1::BAD_ARGUMENT, -1, 65536},
      {"a STORE",
       Request(std::string(kX) + "3 ADD [2, 2]\n4 STORE [2, 3]\n5 REDUCE [2] ADD axes=(0)\n6 TUPLE [5, 4]\n"),
       v1::BAD_ARGUMENT, 4},
      {"bits", Request(SumOf("3 BITCAST [2] to=int32\n4 BITCAST [3] to=float32\n", 4)), v1::BAD_ARGUMENT, 4},
      {"bits in a condition",
       Request(SumOf("3 BITCAST [2] to=int32\n4 CONST [] int32 0\n5 CMPLT [3, 4]\n"
                     "6 CONST [] float32 0.0\n7 WHERE [5, 6, 2]\n",
                     7)),
       v1::BAD_ARGUMENT, 3},
      {"no program", Request(kX), v1::BAD_ROOT, 2},
      {"not even a graph", Request("0 ADD [0]\n1 TUPLE [0]\n"), v1::GRAPH_CYCLE, 0},
  };
  for (const Fault& fault : faults) {
    const auto response = Gradient(fault.request, Limits());
    ASSERT_FALSE(response.ok()) << fault.name;
    const v1::ErrorDetail detail = DetailOf(response.status()).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), fault.code) << fault.name << ": " << response.status();
    EXPECT_EQ(detail.has_node() ? static_cast<int>(detail.node()) : -1, fault.node) << fault.name;
    EXPECT_EQ(detail.has_slot() ? static_cast<int>(detail.slot()) : -1, fault.slot) << fault.name;
  }
}

TEST(Gradient, BitsBehindADetachAreNoFault) {
  const auto request =
      Request(SumOf("3 DETACH [2]\n4 BITCAST [3] to=int32\n5 CONST [] int32 0\n6 CMPLT [4, 5]\n"
                    "7 CONST [] float32 0.0\n8 WHERE [6, 7, 2]\n",
                    8));
  EXPECT_EQ(Evaluate(request, {{0, Floats({-1, 2, -3, 4})}}), (Values{0, 1, 0, 1}));
}

TEST(Gradient, ThatNoServerWouldTakeIsRefused) {
  Limits limits;
  const auto request = Request(SumOf("3 SIN [2]\n4 SIN [3]\n", 4));
  limits.max_nodes = static_cast<uint32_t>(request.graph().nodes_size());
  const auto response = Gradient(request, limits);
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(DetailOf(response.status())->code(), v1::GRAPH_TOO_LARGE) << response.status();
}

TEST(Gradient, RefusalsNameTheOpThatWasSent) {
  const auto request = Request(
      "0 CONST [] weakint 4\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=float32\n3 ASSIGN [2, 2] @\"update\"\n"
      "4 REDUCE [3] ADD axes=(0)\n5 TUPLE [4]\n");
  const auto response = Gradient(request, Limits());
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(DetailOf(response.status())->node(), 3u) << response.status();
  EXPECT_EQ(DetailOf(response.status())->op(), "ASSIGN") << response.status();
  EXPECT_EQ(DetailOf(response.status())->tag(), "update") << response.status();
}

TEST(Gradient, OfPicksFromALongAxisBeyondAnySizeIsRefused) {
  const auto request = Request(
      "0 CONST [] weakint 268435456\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=float32\n3 PARAM [1] slot=1 dtype=int32\n"
      "4 INDEX [2, 3]\n5 REDUCE [4] ADD axes=(0)\n6 TUPLE [5]\n");
  const auto response = Gradient(request, Limits());
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(DetailOf(response.status())->code(), v1::SIZE_OVERFLOW) << response.status();
  EXPECT_EQ(DetailOf(response.status())->node(), 4u);
}

}  // namespace
}  // namespace kiln::compiler
