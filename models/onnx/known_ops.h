// One op of docs/ir.md on known values: what models/onnx/known.cc goes through a graph with.
#ifndef KILN_MODELS_ONNX_KNOWN_OPS_H_
#define KILN_MODELS_ONNX_KNOWN_OPS_H_

#include <optional>
#include <vector>

#include "kiln/v1/graph.pb.h"
#include "models/onnx/known.h"

namespace kiln::onnx {

// Elementwise: `sources` broadcast to `shape`, which all elements of the result have.
std::optional<Known> KnownElementwise(const v1::UOp& uop, const std::vector<const Known*>& sources, v1::DType dtype,
                                      const client::Shape& shape);
// Movement and REDUCE. Sources that are shapes and offsets are known values too.
std::optional<Known> KnownMovement(const v1::UOp& uop, const std::vector<const Known*>& sources, v1::DType dtype,
                                   const client::Shape& shape);

// A number as the dtype holds it: integers wrap, floats round.
std::optional<client::Size> Wrapped(v1::DType dtype, const client::Size& value);
double Rounded(v1::DType dtype, double value);

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_KNOWN_OPS_H_
