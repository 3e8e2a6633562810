// The demo's gradients, as the server makes them, against finite differences, and its training
// against its purpose.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "client/cpp/client.h"
#include "client/demo/digits.h"
#include "client/demo/model.h"
#include "client/demo/trainer.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

using client::Arguments;
using client::Client;
using client::HostTensor;

class TrainingTest : public ServerTest, public ::testing::WithParamInterface<demo::Architecture> {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    auto client = Client::Connect(address());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    auto digits = demo::LoadDigits("client/demo/data");
    ASSERT_TRUE(digits.ok()) << digits.status();
    digits_ = *std::move(digits);
  }
  std::unique_ptr<Client> client_;
  demo::Digits digits_;
};

// Along a random direction d, the loss must change as the gradient says:
// (L(w + h d) - L(w - h d)) / 2h = g . d.
TEST_P(TrainingTest, GradientsAreTheLosssSlopes) {
  constexpr int64_t kBatch = 16;
  auto loss = demo::Loss(GetParam(), {.images = digits_.count(), .batch = kBatch});
  ASSERT_TRUE(loss.ok()) << loss.status();
  const auto gradient =
      client_->Gradient(*std::move(loss), {.wrt_slots = demo::WeightSlots(GetParam()), .include_results = true});
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  const auto program = client_->Compile(gradient->graph());
  ASSERT_TRUE(program.ok()) << program.status();

  std::vector<int32_t> rows(kBatch);
  std::iota(rows.begin(), rows.end(), 5);
  Arguments arguments;
  arguments.Set(demo::kImages, HostTensor::Of({digits_.count(), 8, 8}, digits_.images));
  arguments.Set(demo::kLabels, HostTensor::Of({digits_.count()}, digits_.labels));
  arguments.Set(demo::kRows, HostTensor::Of({kBatch}, rows));
  const auto run = [&](const std::vector<HostTensor>& weights) {
    for (size_t i = 0; i < weights.size(); ++i) {
      arguments.Set(demo::kFirstWeight + 2 * static_cast<uint32_t>(i), weights[i]);
    }
    auto result = program->Run(arguments, {.results = v1::RESULT_INLINE});
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  };

  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<HostTensor> weights = demo::InitialWeights(GetParam(), 3);
  // Away from 0, where a bias would put whole areas of paper on the ReLU's edge.
  for (const size_t bias : {size_t{1}, size_t{3}}) {
    std::vector<float> values = weights[bias].Values<float>();
    for (float& value : values) value = 0.3f * uniform(random);
    weights[bias] = HostTensor::Of(weights[bias].shape, values);
  }
  const client::RunResults at = run(weights);
  ASSERT_EQ(at.results.size(), weights.size() + 2);

  for (size_t i = 0; i < weights.size(); ++i) {
    const std::vector<float> middle = weights[i].Values<float>(), gradient = at.results[i + 2].tensor.Values<float>();
    ASSERT_EQ(gradient.size(), middle.size());
    std::vector<float> direction(middle.size()), up = middle, down = middle;
    double expected = 0;
    for (size_t k = 0; k < middle.size(); ++k) {
      // Mostly uphill, so that the slope is large beside rounding.
      direction[k] = std::copysign(1.0f, gradient[k]) + 0.5f * uniform(random);
      expected += static_cast<double>(gradient[k]) * direction[k];
    }
    // A step that changes the loss by about 0.01: far from rounding, and from curves.
    const float step = static_cast<float>(0.01 / expected);
    for (size_t k = 0; k < middle.size(); ++k) {
      up[k] += step * direction[k];
      down[k] -= step * direction[k];
    }
    std::vector<HostTensor> moved = weights;
    moved[i] = HostTensor::Of(weights[i].shape, up);
    const double high = run(moved).results[0].tensor.Values<float>()[0];
    moved[i] = HostTensor::Of(weights[i].shape, down);
    const double low = run(moved).results[0].tensor.Values<float>()[0];
    EXPECT_NEAR((high - low) / (2 * step) / expected, 1, 0.01) << demo::WeightsOf(GetParam())[i].name;
  }
}

TEST_P(TrainingTest, LearnsWhatItIsShown) {
  auto trainer = demo::Trainer::Create(*client_, {.architecture = GetParam(), .epochs = 3}, digits_);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  std::vector<double> losses;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    ASSERT_TRUE((*trainer)->BeginEpoch().ok());
    for (int64_t step = 0; step < (*trainer)->steps_per_epoch(); ++step) {
      const absl::Status status = (*trainer)->Step(epoch, step);
      ASSERT_TRUE(status.ok()) << status;
    }
    const auto statistics = (*trainer)->TakeStatistics();
    ASSERT_TRUE(statistics.ok()) << statistics.status();
    losses.push_back(statistics->loss);
  }
  EXPECT_LT(losses[0], 2.0);
  EXPECT_LT(losses[1], losses[0] / 2);
  EXPECT_LT(losses[2], losses[1]);
  EXPECT_EQ((*trainer)->cached_executes(), (*trainer)->executes());
  const auto guesses = (*trainer)->Predict(digits_);
  ASSERT_TRUE(guesses.ok()) << guesses.status();
  int64_t right = 0;
  for (int64_t i = 0; i < digits_.count(); ++i) right += (*guesses)[i] == digits_.labels[i] ? 1 : 0;
  EXPECT_GT(right, digits_.count() * 95 / 100);
}

INSTANTIATE_TEST_SUITE_P(Both, TrainingTest, ::testing::Values(demo::Architecture::kConv, demo::Architecture::kMlp),
                         [](const auto& info) { return info.param == demo::Architecture::kConv ? "Conv" : "Mlp"; });

}  // namespace
}  // namespace kiln::e2e
