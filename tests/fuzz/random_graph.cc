#include "tests/fuzz/random_graph.h"

#include "tests/fuzz/graph_maker.h"

namespace kiln::testing {

RandomGraph MakeRandomGraph(uint64_t seed) {
  GraphMaker maker(seed);
  const uint64_t steps = 3 + Random(seed).Below(14);
  for (uint64_t i = 0; i < steps; ++i) maker.Step();
  RandomGraph made;
  std::vector<int64_t> ulps;
  maker.Finish(ulps);
  made.graph = maker.graph();
  for (int64_t ulp : ulps) made.results.push_back({ulp, /*zero_signs=*/false});
  return made;
}

}  // namespace kiln::testing
