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

// As a server would answer, but that each weight is its own gradient.
absl::StatusOr<v1::Graph> StepWithoutServer(Architecture architecture) {
  absl::StatusOr<v1::Graph> loss = Loss(architecture, kOptions);
  if (!loss.ok()) return loss;
  v1::GradientResponse gradient;
  v1::Graph& graph = *gradient.mutable_graph();
  graph = *std::move(loss);
  v1::UOp& root = *graph.mutable_nodes(graph.nodes_size() - 1);
  gradient.add_results()->set_dtype(v1::FLOAT32);
  gradient.add_results()->set_dtype(v1::INT32);
  for (const uint32_t slot : WeightSlots(architecture)) {
    for (int i = 0; i < graph.nodes_size(); ++i) {
      const bool weight = graph.nodes(i).op() == v1::PARAM && graph.nodes(i).buffer().slot() == slot;
      if (weight) root.add_src(static_cast<uint32_t>(i));
    }
    v1::Signature::Result& result = *gradient.add_results();
    const Shape& shape = WeightsOf(architecture)[(slot - kFirstWeight) / 2].shape;
    result.set_dtype(v1::FLOAT32);
    result.mutable_shape()->Assign(shape.begin(), shape.end());
  }
  return TrainingStep(architecture, kOptions, gradient);
}

class ModelTest : public ::testing::TestWithParam<Architecture> {};

TEST_P(ModelTest, AStepUpdatesEveryWeightItsMomentumAndTheStatistics) {
  const auto graph = StepWithoutServer(GetParam());
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

TEST_P(ModelTest, AGradientWithoutEveryWeightIsRefused) {
  v1::GradientResponse gradient;
  *gradient.mutable_graph() = *Loss(GetParam(), kOptions);
  gradient.add_results();
  gradient.add_results();
  EXPECT_FALSE(TrainingStep(GetParam(), kOptions, gradient).ok());
}

TEST_P(ModelTest, AGraphStaysSmall) {
  const auto loss = Loss(GetParam(), kOptions);
  const auto prediction = Prediction(GetParam(), 360);
  ASSERT_TRUE(loss.ok() && prediction.ok());
  EXPECT_LT(loss->nodes_size(), 200);
  EXPECT_LT(loss->ByteSizeLong(), 3000u);
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
