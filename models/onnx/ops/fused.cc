// What onnxruntime's optimizer makes of a standard op and the activation after it (com.microsoft).
//
// The op is imported by its own function, from the same node: the fused one has its inputs and attributes, and some
// more of its own.
//
// Tested by tests/onnx/fused_test.py.
#include <optional>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// Two numbers, of which each activation says what they are and what they are by themselves.
struct Activation {
  absl::string_view name;
  double alpha, beta;
  Tensor (*function)(Tensor x, double alpha, double beta);
};

constexpr double kFarBelow = -3.4028234663852886e38, kFarAbove = 3.4028234663852886e38;

constexpr Activation kActivations[] = {
    {"Relu", 0, 0, [](Tensor x, double, double) { return Relu(x); }},
    {"Sigmoid", 0, 0, [](Tensor x, double, double) { return Sigmoid(x); }},
    {"Tanh", 0, 0, [](Tensor x, double, double) { return Tanh(x); }},
    {"Softplus", 0, 0, [](Tensor x, double, double) { return Maximum(x, 0.0) + Log(1.0 + Exp(-Abs(x))); }},
    {"Softsign", 0, 0, [](Tensor x, double, double) { return x / (1.0 + Abs(x)); }},
    {"LeakyRelu", 0.01F, 0, [](Tensor x, double alpha, double) { return Where(x < 0.0, x * alpha, x); }},
    {"Elu", 1, 0, [](Tensor x, double alpha, double) { return Where(x < 0.0, alpha * (Exp(x) - 1.0), x); }},
    {"ThresholdedRelu", 1, 0, [](Tensor x, double alpha, double) { return Where(x > alpha, x, 0.0); }},
    {"HardSigmoid", 0.2F, 0.5F, [](Tensor x, double alpha, double beta) { return Clamp(x * alpha + beta, 0, 1); }},
    {"HardSwish", 1.0F / 6, 0.5F,
     [](Tensor x, double alpha, double beta) { return x * Clamp(x * alpha + beta, 0, 1); }},
    {"Clip", kFarBelow, kFarAbove,
     [](Tensor x, double alpha, double beta) { return Minimum(Maximum(x, alpha), beta); }},
};

Result Activated(Node& node, Tensor x, std::optional<double> alpha, std::optional<double> beta) {
  const std::string name = node.Text("activation");
  if (name.empty()) return x;
  for (const Activation& row : kActivations) {
    if (row.name != name) continue;
    return InWide(x, [&](Tensor y) { return row.function(y, alpha.value_or(row.alpha), beta.value_or(row.beta)); });
  }
  std::string names;
  for (const Activation& row : kActivations) absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  return node.Refuse(absl::StrCat("activation \"", absl::CHexEscape(name), "\"; taken are ", names));
}

// The standard's op of the newest opset, on this node.
absl::StatusOr<Tensor> ByStandard(Node& node, absl::string_view name) {
  KILN_ASSIGN_OR_RETURN(const OpRow* row, FindOp(kStandard, name, kAny));
  KILN_ASSIGN_OR_RETURN(Outputs outputs, row->function(node));
  return outputs.values[0].tensor;
}

Result FusedGemm(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Tensor product, ByStandard(node, "Gemm"));
  const auto given = [&](absl::string_view name) {
    return node.HasAttribute(name) ? std::optional(node.Float(name)) : std::nullopt;
  };
  return Activated(node, product, given("activation_alpha"), given("activation_beta"));
}

// Input 3 is added before the activation.
Result FusedConv(Node& node) {
  KILN_ASSIGN_OR_RETURN(Tensor product, ByStandard(node, "Conv"));
  if (node.Has(3)) product = product + node.In(3);
  const std::vector<double> given = node.Floats("activation_params");
  const auto at = [&](size_t i) { return i < given.size() ? std::optional(given[i]) : std::nullopt; };
  return Activated(node, product, at(0), at(1));
}

// One half of the last axis, times gelu of the other.
Result BiasSplitGelu(Node& node) {
  const Tensor sum = node.In(0) + node.In(1);
  KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(sum, -1));
  if (sum.rank() < 1 || size % 2 != 0) return node.Bad("the last axis has no halves");
  const int64_t axis = sum.rank() - 1;
  const auto gelu = [](Tensor x) { return 0.5 * x * (1.0 + Erf(x * 0.7071067811865476)); };
  return Part(sum, axis, 0, size / 2) * InWide(Part(sum, axis, size / 2, size), gelu);
}

constexpr OpRow kRows[] = {
    {"FusedGemm", 1, FusedGemm, 2, 3, kMicrosoft},
    {"FusedConv", 1, FusedConv, 2, 4, kMicrosoft},
    {"BiasSplitGelu", 1, BiasSplitGelu, 2, 2, kMicrosoft},
    {"BiasAdd", 1, [](Node& node) -> Result { return node.In(0) + node.In(1) + node.In(2); }, 3, 3, kMicrosoft},
};

}  // namespace

OpRows FusedOps() { return kRows; }

}  // namespace kiln::onnx
