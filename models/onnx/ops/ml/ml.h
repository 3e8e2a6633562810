// What the ops of ai.onnx.ml, classical machine learning, share.
//
// These models take rows of features, (rows, features), or one row alone. They compute in float32 whatever the features
// are, but for trees of doubles; and a last step, `post_transform`, makes shares of scores.
#ifndef KILN_MODELS_ONNX_OPS_ML_ML_H_
#define KILN_MODELS_ONNX_OPS_ML_ML_H_

#include <cstdint>
#include <string>
#include <vector>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {

// x as (rows, features): one row alone is a row. BAD_ARGUMENT where it has more axes. Of float32, or, if wanted, of
// float64 where x is.
absl::StatusOr<Tensor> Features(Node& node, Tensor x, bool doubles = false);

// The attribute post_transform: NONE by itself. BAD_ARGUMENT if it is none of those that there are. UNSUPPORTED_OP
// where it is of one regression's target and means to others what it does not mean to the standard; 0 for classes.
absl::StatusOr<std::string> PostTransform(Node& node, int64_t targets);

// Of scores (rows, classes) what `transform` makes.
Tensor Transformed(Tensor scores, const std::string& transform);

// One score a row, (rows, 1), as those of two classes: of a positive one the second class is likely. `shares`: the
// score is a share of 1 already. UNSUPPORTED_OP for PROBIT.
absl::StatusOr<Tensor> OfTwoClasses(Node& node, Tensor score, const std::string& transform, bool shares);

// The labels of classes, from the attributes classlabels_ints or classlabels_int64s. UNSUPPORTED_OP if they are
// strings.
absl::StatusOr<std::vector<int64_t>> Labels(Node& node, absl::string_view integers);

// As many labels as `places` (rows) names.
Tensor LabelsAt(Node& node, const std::vector<int64_t>& labels, Tensor places);

// Numbers that a model may have of one kind, in a tensor or a table: a byte of the file is eight here.
constexpr int64_t kMostNumbers = int64_t{1} << 24;

// The elements of an attribute that is a list of floats, or, as of ai.onnx.ml 3, a tensor called NAME_as_tensor.
absl::StatusOr<std::vector<double>> RealsOf(Node& node, const std::string& name);
// Those of a tensor attribute, whatever numbers they are. UNSUPPORTED_OP for more than kMostNumbers.
absl::StatusOr<std::vector<double>> RealsOfTensor(Node& node, const std::string& name);

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_OPS_ML_ML_H_
