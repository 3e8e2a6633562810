// Products and convolutions large enough that the rules choose the large tiles of work groups on a card of 132 cores:
// too large for the interpreter. Numbers are small and whole, and so are all sums of them: float32 on the host gives
// what every dtype must give on a card.
#ifndef KILN_TESTS_GPU_TILE_CASES_H_
#define KILN_TESTS_GPU_TILE_CASES_H_

#include <vector>

#include "client/cpp/graph.h"
#include "kiln/v1/graph.pb.h"
#include "tests/conformance/gpu/products.h"

namespace kiln::testing {

struct TileCase {
  const char* name;
  v1::DType dtype;
  // Of factors of `dtype`; the host's are FLOAT32.
  client::Tensor (*product)(Made& made, v1::DType dtype);
  bool fast_math = false;
};

const std::vector<TileCase>& TileCases();

}  // namespace kiln::testing

#endif  // KILN_TESTS_GPU_TILE_CASES_H_
