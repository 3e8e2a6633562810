// Tensors as they are, with a word on how they are kept or differentiated.
#ifndef KILN_CLIENT_CPP_MARKERS_H_
#define KILN_CLIENT_CPP_MARKERS_H_

#include "client/cpp/graph.h"

namespace kiln::client {

// x; to a gradient, a constant.
Tensor Detach(Tensor x);
// x, computed once and stored.
Tensor Contiguous(Tensor x);
// x; its gradient is computed once and stored.
Tensor ContiguousBackward(Tensor x);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_MARKERS_H_
