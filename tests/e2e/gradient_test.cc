// KernelService.Gradient, as a client meets it.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/e2e/bad_input/bad_input.h"

namespace kiln::e2e {
namespace {

using absl::StatusCode;

// sum(x * w) for float32 [8] in slots 0 and 1; x * w besides.
constexpr char kDot[] = R"(
  0 CONST [] weakint 8
  1 PARAM : float32 [0] slot=0
  2 PARAM : float32 [0] slot=1
  3 MUL [1, 2]
  4 REDUCE [3] ADD axes=(0)
  5 TUPLE [4, 3]
)";

absl::StatusOr<v1::GradientResponse> Gradient(Stubs& stubs, const v1::GradientRequest& request) {
  v1::GradientResponse response;
  KILN_RETURN_IF_ERROR(Call(*stubs.kernel, &v1::KernelService::Stub::Gradient, request, response));
  return response;
}

v1::GradientRequest Request(absl::string_view text, const std::vector<uint32_t>& wrt) {
  v1::GradientRequest request;
  *request.mutable_graph() = GraphOf(text);
  request.mutable_wrt_slot()->Add(wrt.begin(), wrt.end());
  return request;
}

class GradientTest : public ServerTest {};

TEST_F(GradientTest, GivesAProgramThatRuns) {
  v1::GradientRequest request = Request(kDot, {1, 0});
  request.set_result(1);
  request.set_cotangent_slot(2);
  request.set_include_results(true);
  const auto gradient = Gradient(*stubs_, request);
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  ASSERT_EQ(gradient->results_size(), 4);
  v1::ExecuteRequest execute;
  *execute.mutable_graph() = gradient->graph();
  execute.set_result_mode(v1::RESULT_INLINE);
  AddFloats(execute, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  AddFloats(execute, 1, {2, 2, 2, 2, 3, 3, 3, 3});
  AddFloats(execute, 2, {1, 0, 1, 0, 1, 0, 1, 10});
  const auto run = Execute(*stubs_, execute);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->results_size(), 4);
  EXPECT_EQ(FloatsOf(run->results(0).tensor().data()), (std::vector<float>{98}));
  EXPECT_EQ(FloatsOf(run->results(1).tensor().data()), (std::vector<float>{2, 4, 6, 8, 15, 18, 21, 24}));
  EXPECT_EQ(FloatsOf(run->results(2).tensor().data()), (std::vector<float>{1, 0, 3, 0, 5, 0, 7, 80}));
  EXPECT_EQ(FloatsOf(run->results(3).tensor().data()), (std::vector<float>{2, 0, 2, 0, 3, 0, 3, 30}));
}

TEST_F(GradientTest, OfAGradientIsAGradient) {
  const auto first = Gradient(*stubs_, Request(kDot, {0}));
  ASSERT_TRUE(first.ok()) << first.status();
  v1::GradientRequest again;
  *again.mutable_graph() = first->graph();
  again.add_wrt_slot(1);
  again.set_cotangent_slot(7);
  const auto second = Gradient(*stubs_, again);
  ASSERT_TRUE(second.ok()) << second.status();
  v1::ExecuteRequest execute;
  *execute.mutable_graph() = second->graph();
  execute.set_result_mode(v1::RESULT_INLINE);
  AddFloats(execute, 7, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto run = Execute(*stubs_, execute);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(FloatsOf(run->results(0).tensor().data()), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
}

std::function<absl::Status(Stubs&)> Asking(const v1::GradientRequest& request) {
  return [request](Stubs& stubs) { return Gradient(stubs, request).status(); };
}

TEST_F(BadInputTest, Gradients) {
  v1::GradientRequest result = Request(kDot, {0}), vector = Request(kDot, {0}), used = Request(kDot, {0});
  result.set_result(2);
  vector.set_result(1);
  used.set_cotangent_slot(1);
  const std::string x = "0 CONST [] weakint 8\n1 PARAM : float32 [0] slot=0\n";
  std::string deep = x;
  for (int i = 2; i < 80; ++i) absl::StrAppend(&deep, i, " MAX [", i - 1, ", 1]\n");
  absl::StrAppend(&deep, "80 REDUCE [79] ADD axes=(0)\n81 TUPLE [80]\n");
  Check({
      {"no graph", Asking(v1::GradientRequest()), StatusCode::kInvalidArgument, v1::GRAPH_EMPTY},
      {"by nothing", Asking(Request(kDot, {})), StatusCode::kInvalidArgument, v1::BAD_ARGUMENT},
      {"by no slot", Asking(Request(kDot, {3})), StatusCode::kInvalidArgument, v1::UNKNOWN_ARGUMENT, std::nullopt, 3},
      {"no such result", Asking(result), StatusCode::kInvalidArgument, v1::BAD_ARGUMENT},
      {"of many elements", Asking(vector), StatusCode::kInvalidArgument, v1::BAD_ARGUMENT},
      {"a cotangent in use", Asking(used), StatusCode::kInvalidArgument, v1::BAD_ARGUMENT, std::nullopt, 1},
      {"a STORE", Asking(Request(kAddOneInPlace, {0})), StatusCode::kInvalidArgument, v1::BAD_ARGUMENT, 4},
      {"bits",
       Asking(Request(x + "2 BITCAST [1] to=int32\n3 BITCAST [2] to=float32\n4 REDUCE [3] ADD axes=(0)\n"
                          "5 TUPLE [4]\n",
                      {0})),
       StatusCode::kInvalidArgument, v1::BAD_ARGUMENT, 3},
      {"a bad node", Asking(Request(x + "2 ADD [1]\n3 TUPLE [2]\n", {0})), StatusCode::kInvalidArgument,
       v1::WRONG_SOURCE_COUNT, 2},
      {"too large an answer", Asking(Request(deep, {0})), StatusCode::kResourceExhausted, v1::GRAPH_TOO_LARGE,
       std::nullopt, std::nullopt, 0, "nodes"},
      {"no message", [](Stubs& stubs) { return CallRaw(stubs, "/kiln.v1.KernelService/Gradient", "\xff\xff"); },
       StatusCode::kInvalidArgument, v1::MALFORMED_MESSAGE},
  });
}

}  // namespace
}  // namespace kiln::e2e
