// Models on rows of a variable number, as clients build them.
#ifndef KILN_TESTS_BATCH_ROW_MODELS_H_
#define KILN_TESTS_BATCH_ROW_MODELS_H_

#include <cstdint>
#include <functional>

#include "absl/types/span.h"
#include "client/cpp/ops.h"
#include "tests/batch/row_maker.h"

namespace kiln::testing {

// A graph with the variable "batch", from 1 to 64.
struct RowMaker {
  client::Graph graph;
  client::Size batch = graph.Variable(kBatch, 1, 64, "batch");
  client::Size tokens = graph.Variable(kTokens, 1, 32, "tokens");
  uint32_t slot = 0;

  client::Tensor Param(const client::Sizes& shape, v1::DType dtype = v1::FLOAT32) {
    return graph.Param(slot++, dtype, shape);
  }
  void Output(client::Tensor x) { graph.Output(x); }
};

struct RowModel {
  const char* name;
  std::function<void(RowMaker&)> make;
  const char* reason = "";  // with which it is denied
};

// Fails the test if it is none.
v1::Graph GraphOf(const RowModel& model);

// Those that work row by row.
absl::Span<const RowModel> RowModels();

}  // namespace kiln::testing

#endif  // KILN_TESTS_BATCH_ROW_MODELS_H_
