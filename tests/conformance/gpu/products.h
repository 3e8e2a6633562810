// Graphs of products beside numbers for them, small and whole, so that every order of a sum gives the same.
#ifndef KILN_TESTS_CONFORMANCE_GPU_PRODUCTS_H_
#define KILN_TESTS_CONFORMANCE_GPU_PRODUCTS_H_

#include <cstdint>
#include <string>

#include "client/cpp/graph.h"
#include "compiler/interp/interp.h"
#include "kiln/v1/target.pb.h"

namespace kiln::testing {

// From -4 to 4.
compiler::HostTensor Numbers(v1::DType dtype, const client::Shape& shape, int64_t seed);

struct Made {
  client::Graph graph;
  compiler::HostTensors arguments;

  client::Tensor Param(v1::DType dtype, const client::Shape& shape);
};

// A GPU of so many cores: the more there are, the smaller the tiles.
v1::Target TargetOf(const std::string& architecture, int cores);

// The product in that dtype, whatever the factors are.
client::Tensor In(v1::DType sum, const client::Tensor& a, const client::Tensor& b);
// In float32.
client::Tensor Wide(const client::Tensor& a, const client::Tensor& b);

}  // namespace kiln::testing

#endif  // KILN_TESTS_CONFORMANCE_GPU_PRODUCTS_H_
