#include "client/demo/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace kiln::demo {
namespace {

constexpr StepOptions kOptions = {.images = 100, .batch = 4};

std::map<uint32_t, std::string> ParamNames(const v1::Graph& graph) {
  std::map<uint32_t, std::string> names;
  for (const v1::UOp& uop : graph.nodes()) {
    if (uop.op() == v1::PARAM) names[uop.buffer().slot()] = uop.buffer().name();
  }
  return names;
}

class ModelTest : public ::testing::TestWithParam<Architecture> {};

TEST_P(ModelTest, AStepUpdatesEveryWeightItsMomentumAndTheStatistics) {
  const auto graph = TrainingStep(GetParam(), kOptions);
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::set<uint32_t> updated;
  const v1::UOp& root = graph->nodes(graph->nodes_size() - 1);
  for (const uint32_t source : root.src()) {
    const v1::UOp& store = graph->nodes(source);
    ASSERT_EQ(store.op(), v1::STORE);
    updated.insert(graph->nodes(store.src(0)).buffer().slot());
  }
  EXPECT_EQ(updated, (std::set<uint32_t>{4, 5, 6, 7, 8, 9, 10, 11, 12}));
  const auto names = ParamNames(*graph);
  EXPECT_EQ(names.size(), 13u);
  EXPECT_EQ(names.at(kRows), "rows");
  EXPECT_EQ(names.at(kFirstWeight + 5), "dense.weight.velocity");
}

TEST_P(ModelTest, EveryWeightHasAGradientOfItsShape) {
  const auto graph = Gradients(GetParam(), kOptions);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes(graph->nodes_size() - 1).src_size(), 5);
}

TEST_P(ModelTest, AGraphStaysSmall) {
  const auto step = TrainingStep(GetParam(), kOptions);
  const auto prediction = Prediction(GetParam(), 360);
  ASSERT_TRUE(step.ok() && prediction.ok());
  EXPECT_LT(step->nodes_size(), 300);
  EXPECT_LT(step->ByteSizeLong(), 4000u);
  EXPECT_LT(prediction->nodes_size(), 150);
}

TEST_P(ModelTest, FirstWeightsAreTheSameEverywhere) {
  const auto weights = InitialWeights(GetParam(), 1);
  ASSERT_EQ(weights.size(), WeightsOf(GetParam()).size());
  const std::vector<float> first = weights[0].Values<float>(), bias = weights[1].Values<float>();
  EXPECT_EQ(InitialWeights(GetParam(), 1)[2].bytes, weights[2].bytes);
  EXPECT_NE(InitialWeights(GetParam(), 2)[2].bytes, weights[2].bytes);
  EXPECT_THAT(bias, ::testing::Each(0.0f));
  double squares = 0;
  for (const float value : weights[2].Values<float>()) squares += value * value;
  // Variance 2 / fan_in times fan_in * 10 values.
  EXPECT_NEAR(squares, 20, 1.5);
}

INSTANTIATE_TEST_SUITE_P(Both, ModelTest, ::testing::Values(Architecture::kConv, Architecture::kMlp),
                         [](const auto& info) { return info.param == Architecture::kConv ? "Conv" : "Mlp"; });

}  // namespace
}  // namespace kiln::demo
