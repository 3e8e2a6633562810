#include "client/cpp/markers.h"

namespace kiln::client {
namespace {

Tensor Mark(v1::Op op, Tensor x) { return x.valid() ? x.graph()->Node(op, {x.node()}, x.dtype(), x.sizes()) : x; }

}  // namespace

Tensor Detach(Tensor x) { return Mark(v1::DETACH, x); }
Tensor Contiguous(Tensor x) { return Mark(v1::CONTIGUOUS, x); }
Tensor ContiguousBackward(Tensor x) { return Mark(v1::CONTIGUOUS_BACKWARD, x); }

}  // namespace kiln::client
