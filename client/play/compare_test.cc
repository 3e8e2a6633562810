#include "client/play/compare.h"

#include <gtest/gtest.h>

#include "client/play/handles.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::play {
namespace {

std::string Bytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

v1::ExecuteResponse Answer(const std::vector<float>& values) {
  v1::ExecuteResponse answer;
  v1::Tensor& tensor = *answer.add_results()->mutable_tensor();
  tensor.set_dtype(v1::FLOAT32);
  tensor.add_shape(static_cast<int64_t>(values.size()));
  tensor.set_data(Bytes(values));
  return answer;
}

TEST(CompareAnswers, TheFirstElementIsNamedWithBothValues) {
  v1::ExecuteResponse one = Answer({1, 2, 3, 4}), two = Answer({1, 2, 3.5, 5});
  const auto found = CompareAnswers(one, two);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->where, "results[0].tensor.data[2]");
  EXPECT_EQ(found->captured, "3 (0x40400000)");
  EXPECT_EQ(found->played, "3.5 (0x40600000)");
}

TEST(CompareAnswers, TimesAndNamesDoNotMatter) {
  v1::ExecuteResponse one = Answer({1, 2}), two = Answer({1, 2});
  one.mutable_timing()->set_device_us(3);
  two.set_from_cache(true);
  one.add_results()->mutable_buffer()->set_handle(7);
  two.add_results()->mutable_buffer()->set_handle(8);
  EXPECT_FALSE(CompareAnswers(one, two).has_value());
}

TEST(CompareAnswers, ZerosOfTwoSignsDiffer) {
  const auto found = CompareAnswers(Answer({0.0f}), Answer({-0.0f}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->captured, "0 (0x00000000)");
  EXPECT_EQ(found->played, "-0 (0x80000000)");
}

TEST(CompareAnswers, ShapesAndNumbersOfResults) {
  v1::ExecuteResponse one = Answer({1, 2}), two = Answer({1, 2});
  two.mutable_results(0)->mutable_tensor()->set_shape(0, 1);
  EXPECT_EQ(CompareAnswers(one, two)->where, "results[0].tensor.shape");
  two.Clear();
  EXPECT_EQ(CompareAnswers(one, two)->where, "results");
}

TEST(CompareData, APieceCountsFromItsPlace) {
  const auto found = CompareData(Bytes({1, 2}), Bytes({1, 3}), v1::FLOAT32, 1 << 20);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->where, "[262145]");
  EXPECT_EQ(CompareData("ab", "ac", v1::DTYPE_UNSPECIFIED, 0)->where, "[1]");
  EXPECT_EQ(CompareData("ab", "a", v1::DTYPE_UNSPECIFIED, 0)->captured, "2 bytes");
}

TEST(Handles, TheServersAreTranslatedAndTheClientsKept) {
  v1::ExecuteResponse one, two;
  one.add_results()->mutable_buffer()->set_handle(100);
  two.add_results()->mutable_buffer()->set_handle(200);
  Handles handles;
  handles.Learn(one, two);
  v1::SubmitRequest request;
  v1::ExecuteCommand& execute = *request.mutable_execute();
  execute.mutable_request()->add_arguments()->mutable_buffer()->set_handle(100);
  execute.mutable_request()->add_arguments()->mutable_buffer()->set_handle(5);
  execute.add_result_handle(6);
  handles.Translate(request);
  EXPECT_EQ(execute.request().arguments(0).buffer().handle(), 200u);
  EXPECT_EQ(execute.request().arguments(1).buffer().handle(), 5u);
  EXPECT_EQ(execute.result_handle(0), 6u);
}

}  // namespace
}  // namespace kiln::play
