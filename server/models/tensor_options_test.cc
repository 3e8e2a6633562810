#include "server/models/tensor_options.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "base/error.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.pb.h"

namespace kiln::server {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(ReadRequestParameters, HowLongARequestIsWanted) {
  EXPECT_EQ(ReadRequestParameters({}, /*keeps_state=*/false)->timeout, absl::InfiniteDuration());
  for (const auto& [micros, expected] :
       {std::pair(int64_t{0}, absl::InfiniteDuration()), std::pair(int64_t{1500}, absl::Microseconds(1500)),
        std::pair(kMost, absl::Microseconds(kMost))}) {
    InferParameters parameters;
    parameters["timeout"].set_int64_param(micros);
    EXPECT_EQ(ReadRequestParameters(parameters, /*keeps_state=*/false)->timeout, expected);
    parameters["timeout"].set_uint64_param(static_cast<uint64_t>(micros));
    EXPECT_EQ(ReadRequestParameters(parameters, /*keeps_state=*/false)->timeout, expected);
  }
}

TEST(ReadRequestParameters, ATimeOfAnotherFormIsRefused) {
  InferParameters negative, text, nothing;
  negative["timeout"].set_int64_param(-1);
  text["timeout"].set_string_param("1");
  nothing["timeout"];
  for (const InferParameters& parameters : {negative, text, nothing}) {
    const absl::Status status = ReadRequestParameters(parameters, /*keeps_state=*/false).status();
    ASSERT_TRUE(DetailOf(status).has_value()) << status;
    EXPECT_EQ(DetailOf(status)->code(), v1::BAD_ARGUMENT);
    EXPECT_EQ(DetailOf(status)->field(), "parameters.timeout");
  }
}

TEST(ReadRequestParameters, IsBesideASequence) {
  InferParameters parameters;
  parameters["timeout"].set_int64_param(7);
  parameters["sequence_id"].set_int64_param(3);
  const auto options = ReadRequestParameters(parameters, /*keeps_state=*/true);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->timeout, absl::Microseconds(7));
  EXPECT_EQ(options->sequence->id, "3");
}

TEST(ReadRequestParameters, WhetherAnswersAreBinaryIsHttps) {
  InferParameters parameters;
  for (const bool is_binary : {true, false}) {
    parameters["binary_data_output"].set_bool_param(is_binary);
    EXPECT_TRUE(ReadRequestParameters(parameters, /*keeps_state=*/false).ok());
  }
  parameters["binary_data_output"].set_int64_param(1);
  EXPECT_EQ(DetailOf(ReadRequestParameters(parameters, /*keeps_state=*/false).status())->field(),
            "parameters.binary_data_output");
}

TEST(ReadTensorOptions, AnInputSaysHowManyBytesItHas) {
  InferParameters parameters;
  EXPECT_FALSE(ReadTensorOptions(parameters, TensorKind::kInput, "x")->bytes.has_value());
  parameters["binary_data_size"].set_int64_param(16);
  EXPECT_EQ(ReadTensorOptions(parameters, TensorKind::kInput, "x")->bytes, 16u);
  EXPECT_EQ(DetailOf(ReadTensorOptions(parameters, TensorKind::kOutput, "y").status())->code(), v1::NOT_IMPLEMENTED);
  parameters["shared_memory_region"].set_string_param("r");
  parameters["shared_memory_byte_size"].set_int64_param(16);
  EXPECT_EQ(DetailOf(ReadTensorOptions(parameters, TensorKind::kInput, "x").status())->code(), v1::BAD_ARGUMENT);
  InferParameters negative;
  negative["binary_data_size"].set_int64_param(-1);
  EXPECT_EQ(DetailOf(ReadTensorOptions(negative, TensorKind::kInput, "x").status())->field(), "x");
}

TEST(ReadTensorOptions, WhetherAnOutputIsBinaryIsHttps) {
  InferParameters parameters;
  for (const bool is_binary : {true, false}) {
    parameters["binary_data"].set_bool_param(is_binary);
    EXPECT_TRUE(ReadTensorOptions(parameters, TensorKind::kOutput, "y").ok());
  }
  EXPECT_EQ(DetailOf(ReadTensorOptions(parameters, TensorKind::kInput, "x").status())->code(), v1::NOT_IMPLEMENTED);
  parameters["binary_data"].set_int64_param(1);
  EXPECT_EQ(DetailOf(ReadTensorOptions(parameters, TensorKind::kOutput, "y").status())->code(), v1::BAD_ARGUMENT);
}

}  // namespace
}  // namespace kiln::server
