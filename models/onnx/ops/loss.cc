// Losses.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <limits>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// -scores[n, label, …] times the label's weight; a label that is ignored weighs nothing.
Result NegativeLogLikelihood(Node& node, Tensor scores) {
  const Tensor labels = Cast(node.In(1), v1::INT64);
  if (scores.rank() < 2 || labels.rank() != scores.rank() - 1)
    return node.Bad(absl::StrCat("labels of ", ShapeText(labels.sizes()), " for ", ShapeText(scores.sizes())));
  const Tensor places = Along(node.graph().Arange(scores.size(1), v1::INT64), 1, scores.rank());
  const Tensor hot = places == Unsqueeze(labels, 1);
  const Tensor weights = node.Has(2) ? Along(Widened(node.In(2)), 1, scores.rank()) : Filled(Widened(scores), 1);
  Tensor weight = Sum(Where(hot, BroadcastAs(weights, scores), Filled(Widened(scores), 0)), 1);
  if (node.HasAttribute("ignore_index")) weight = Where(labels == node.Int("ignore_index"), Filled(weight, 0), weight);
  const Tensor chosen = Sum(Where(hot, Widened(scores), Filled(Widened(scores), 0)), 1);
  const Tensor loss = Where(weight == 0.0, Filled(chosen, 0), -chosen * weight);
  const std::string reduction = node.Text("reduction", "mean");
  if (reduction == "none") return Cast(loss, scores.dtype());
  if (reduction == "sum") return Cast(Sum(loss), scores.dtype());
  if (reduction == "mean") return Cast(Sum(loss) / Sum(weight), scores.dtype());
  return node.Bad("reduction is none, sum or mean");
}

Result SoftmaxCrossEntropy(Node& node) {
  const Tensor x = node.In(0);
  if (x.rank() < 2) return node.Bad("takes (batch, classes, …)");
  const Tensor scores = InWide(x, [](Tensor y) { return LogSoftmax(y, 1); });
  KILN_ASSIGN_OR_RETURN(Outputs outputs, NegativeLogLikelihood(node, scores));
  outputs.values.emplace_back(scores);
  return outputs;
}

constexpr OpRow kRows[] = {
    {"NegativeLogLikelihoodLoss", 12, [](Node& node) { return NegativeLogLikelihood(node, node.In(0)); }, 2, 3},
    {"SoftmaxCrossEntropyLoss", 12, SoftmaxCrossEntropy, 2, 3},
};

}  // namespace

OpRows LossOps() { return kRows; }

}  // namespace kiln::onnx
