// Heads: what the several ops of attention share.
//
// A row of queries, keys or values is cut into heads, which are looked at apart from each other. Outside of an op they
// lie beside each other, (batch, length, heads * size); inside each is a matrix, (batch, heads, length, size).
#ifndef KILN_MODELS_ONNX_OPS_ATTENTION_H_
#define KILN_MODELS_ONNX_OPS_ATTENTION_H_

#include <cstdint>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {

// (batch, length, heads * size) to (batch, heads, length, size). What is of rank 4 stays as it is. BAD_ARGUMENT where
// x is of neither kind, or has no such heads.
absl::StatusOr<Tensor> Heads(Node& node, Tensor x, int64_t heads);
// And back.
Tensor Beside(Tensor heads);
// Each head for so many queries' heads beside each other.
Tensor Shared(Tensor x, int64_t times);
// Pairs among the first `turned` elements of each head, of which there are as many, are turned by an angle; the rest
// stays. `cosine` and `sine` are (batch or 1, 1, length, turned / 2). Pairs are neighbours if they are interleaved,
// else one half and the other.
Tensor Rotated(Tensor heads, Tensor cosine, Tensor sine, int64_t turned, bool interleaved);

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_OPS_ATTENTION_H_
