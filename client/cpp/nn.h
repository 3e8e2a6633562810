// What neural networks are made of, without convolutions (conv.h).
#ifndef KILN_CLIENT_CPP_NN_H_
#define KILN_CLIENT_CPP_NN_H_

#include "client/cpp/graph.h"

namespace kiln::client {

// (..., m, k) times (..., k, n) is (..., m, n); leading axes broadcast. A vector on
// the left is a row, on the right a column, and its axis is dropped again.
Tensor Matmul(Tensor a, Tensor b);
// x (..., in) times the transpose of weight (out, in), plus bias (out) if given.
Tensor Linear(Tensor x, Tensor weight, Tensor bias = Tensor());

Tensor Softmax(Tensor x, int64_t axis);
Tensor LogSoftmax(Tensor x, int64_t axis);
// The mean over rows of -log softmax(logits)[row, label]: logits (n, classes),
// labels (n,) of integers.
Tensor CrossEntropy(Tensor logits, Tensor labels);
// Mean 0 and variance 1 along the last axis, then times weight and plus bias if
// given, both (size of the last axis).
Tensor LayerNorm(Tensor x, Tensor weight = Tensor(), Tensor bias = Tensor(), double epsilon = 1e-5);

// A new last axis of `classes`: 1 where its place is the id, else 0.
Tensor OneHot(Tensor ids, const Size& classes, v1::DType dtype);
// Rows of table (count, ...), chosen by ids of any shape: ids.shape + (...).
Tensor Embedding(Tensor table, Tensor ids);
// x with one axis replaced: result[.., j, ..] = x[.., index[.., j, ..], ..]. `index` has
// x's rank and, but for `axis`, its shape.
Tensor Gather(Tensor x, int64_t axis, Tensor index);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_NN_H_
