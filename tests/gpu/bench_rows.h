// What gpu_bench measures: a graph, the work that is in it, and what elements of its result must be, so that a wrong
// kernel is not timed as a fast one.
#ifndef KILN_TESTS_GPU_BENCH_ROWS_H_
#define KILN_TESTS_GPU_BENCH_ROWS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/interp/interp.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

double ElementAt(const compiler::HostTensor& tensor, int64_t index);

struct Expected {
  double value = 0, tolerance = 0;
};

struct Row {
  std::string name;             // torch_bench.py's, too
  double flops = 0, bytes = 0;  // whichever there is
  std::function<v1::Graph()> graph;
  // The first result's element of that number; null: it must be finite.
  std::function<Expected(const compiler::HostTensors& arguments, int64_t index)> expected;
  bool fast_math = false;
  // Of a program that is launched again and again: so many kernels, and so many runs queued at once. What is measured
  // is how long a run takes by the host's clock.
  int kernels = 0, queued = 0;
};

// `small`: the same of sizes that show only whether results are right; without models.
std::vector<Row> BenchRows(bool small);

}  // namespace kiln::testing

#endif  // KILN_TESTS_GPU_BENCH_ROWS_H_
