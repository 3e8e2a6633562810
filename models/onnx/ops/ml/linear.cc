// Sums of features times coefficients, and support vectors: ai.onnx.ml's models without trees.
//
// Tested by tests/onnx/ml_test.py.
#include "models/onnx/ops/ml/ml.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// Each row times coefficients (targets, features), plus intercepts (targets) if there are any.
absl::StatusOr<Tensor> Scores(Node& node, const std::vector<double>& coefficients, int64_t targets) {
  KILN_ASSIGN_OR_RETURN(const Tensor x, Features(node, node.In(0)));
  KILN_ASSIGN_OR_RETURN(const int64_t features, node.Dim(x, 1));
  const auto count = static_cast<int64_t>(coefficients.size());
  if (targets < 1 || features < 1 || count / targets != features || count % targets != 0) {
    return node.Bad(absl::StrCat(count, " coefficients for ", targets, " targets of ", features, " features"));
  }
  const Tensor weight = node.Make(coefficients, {targets, features}, v1::FLOAT32);
  const Tensor product = Matmul(x, Transpose(weight));
  const std::vector<double> intercepts = node.Floats("intercepts");
  if (intercepts.empty()) return product;
  if (static_cast<int64_t>(intercepts.size()) != targets)
    return node.Bad(absl::StrCat(intercepts.size(), " intercepts for ", targets, " targets"));
  return product + node.Make(intercepts, {targets}, v1::FLOAT32);
}

Result LinearRegressor(Node& node) {
  KILN_ASSIGN_OR_RETURN(const std::string transform, PostTransform(node, node.Int("targets", 1)));
  KILN_ASSIGN_OR_RETURN(const Tensor scores, Scores(node, node.Floats("coefficients"), node.Int("targets", 1)));
  return Transformed(scores, transform);
}

// A row of coefficients for each class; or one alone for two classes, whose score is the second's.
Result LinearClassifier(Node& node) {
  KILN_ASSIGN_OR_RETURN(const std::string transform, PostTransform(node, 0));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, Labels(node, "classlabels_ints"));
  const std::vector<double> coefficients = node.Floats("coefficients");
  const auto classes = static_cast<int64_t>(labels.size());
  KILN_ASSIGN_OR_RETURN(const Tensor x, Features(node, node.In(0)));
  const bool one = classes == 2 && x.size(1) == static_cast<int64_t>(coefficients.size());
  KILN_ASSIGN_OR_RETURN(const Tensor scores, Scores(node, coefficients, one ? 1 : classes));
  if (!scores.valid()) return scores;
  if (!one) {
    return std::vector<Tensor>{LabelsAt(node, labels, ArgMax(scores, 1)), Transformed(scores, transform)};
  }
  KILN_ASSIGN_OR_RETURN(const Tensor both, OfTwoClasses(node, scores, transform, transform != "LOGISTIC"));
  return std::vector<Tensor>{LabelsAt(node, labels, Cast(Squeeze(scores, 1) > 0.0, v1::INT64)), both};
}

// How alike two rows are, by a kernel of three parameters: of x (rows, features) and support vectors (vectors,
// features), (rows, vectors).
struct Kernel {
  absl::string_view name;
  Tensor (*function)(Tensor x, Tensor vectors, const std::vector<double>& parameters);
};

Tensor Products(Tensor x, Tensor vectors) { return Matmul(x, Transpose(vectors)); }

// gamma, coef0, degree
constexpr Kernel kKernels[] = {
    {"LINEAR", [](Tensor x, Tensor vectors, const std::vector<double>&) { return Products(x, vectors); }},
    {"POLY", [](Tensor x, Tensor vectors,
                const std::vector<double>& by) { return Pow(Products(x, vectors) * by[0] + by[1], by[2]); }},
    {"RBF",
     [](Tensor x, Tensor vectors, const std::vector<double>& by) {
       return Exp(Sum(Square(Unsqueeze(x, 1) - Unsqueeze(vectors, 0)), 2) * -by[0]);
     }},
    {"SIGMOID", [](Tensor x, Tensor vectors,
                   const std::vector<double>& by) { return Tanh(Products(x, vectors) * by[0] + by[1]); }},
};

absl::StatusOr<const Kernel*> KernelOf(Node& node) {
  const std::string name = node.Text("kernel_type", "LINEAR");
  for (const Kernel& row : kKernels) {
    if (row.name == name) return &row;
  }
  return node.Bad(absl::StrCat("kernel_type \"", absl::CHexEscape(name), "\"; it is LINEAR, POLY, RBF or SIGMOID"));
}

// Without support vectors the coefficients are the features' own.
Result SvmRegressor(Node& node) {
  KILN_ASSIGN_OR_RETURN(const std::string transform, PostTransform(node, 1));
  KILN_ASSIGN_OR_RETURN(const Kernel* kernel, KernelOf(node));
  KILN_ASSIGN_OR_RETURN(const Tensor x, Features(node, node.In(0)));
  KILN_ASSIGN_OR_RETURN(const int64_t features, node.Dim(x, 1));
  std::vector<double> parameters = node.Floats("kernel_params"), rho = node.Floats("rho");
  parameters.resize(3, 0);
  if (rho.size() != 1) return node.Bad(absl::StrCat("rho has ", rho.size(), " elements, not one"));
  const std::vector<double> coefficients = node.Floats("coefficients"), vectors = node.Floats("support_vectors");
  const int64_t count = node.Int("n_supports");
  Tensor sum;
  if (count > 0) {
    if (features < 1 || static_cast<int64_t>(coefficients.size()) != count ||
        static_cast<int64_t>(vectors.size()) % count != 0 || static_cast<int64_t>(vectors.size()) / count != features) {
      return node.Bad(absl::StrCat(vectors.size(), " numbers and ", coefficients.size(), " coefficients for ", count,
                                   " vectors of ", features, " features"));
    }
    const Tensor alike = kernel->function(x, node.Make(vectors, {count, features}, v1::FLOAT32), parameters);
    sum = Matmul(alike, node.Make(coefficients, {count, 1}, v1::FLOAT32));
  } else {
    if (kernel->name != "LINEAR") return node.Bad("there are no support vectors, and the kernel is not LINEAR");
    if (features < 1 || static_cast<int64_t>(coefficients.size()) != features)
      return node.Bad(absl::StrCat(coefficients.size(), " coefficients for ", features, " features"));
    sum = Matmul(x, node.Make(coefficients, {features, 1}, v1::FLOAT32));
  }
  sum = sum + rho[0];
  if (node.Int("one_class") != 0) return Where(sum > 0.0, Filled(sum, 1), Filled(sum, -1));
  return Transformed(sum, transform);
}

constexpr OpRow kRows[] = {
    {"LinearRegressor", 1, LinearRegressor, 1, 1, kMl},
    {"LinearClassifier", 1, LinearClassifier, 1, 1, kMl},
    {"SVMRegressor", 1, SvmRegressor, 1, 1, kMl},
};

}  // namespace

OpRows MlLinearOps() { return kRows; }

}  // namespace kiln::onnx
