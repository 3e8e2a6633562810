// Which variables of a program as a client sends it are batch sizes: for each, whether the program works row
// by row in it (row_wise.h), or what forbids that.
#ifndef KILN_COMPILER_BATCH_BATCHING_H_
#define KILN_COMPILER_BATCH_BATCHING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

struct Batching {
  struct Part {
    bool varying = false;
    std::string rows;  // the leading size of one that varies: "batch", "4*batch"
  };
  uint32_t slot = 0;     // of the variable
  std::string name;      // its name, or "slot 3"
  std::string obstacle;  // empty: row-wise
  bool row_wise() const { return obstacle.empty(); }
  // Of a row-wise one.
  struct Parameter : Part {
    uint32_t slot = 0;
    std::string name;
  };
  std::vector<Parameter> parameters;  // in ascending order of slot
  std::vector<Part> results;          // in order
};

// One for each variable of `graph`, in ascending order of slot; none of a kernel or a program written by
// hand, and none of a graph that names several devices. The errors of a compile up to "rangeify", which it
// runs with the limits of `options`; what other options say does not matter. It takes part of a compile's time.
absl::StatusOr<std::vector<Batching>> BatchingOf(const v1::Graph& graph, const Options& options,
                                                 CompileObserver* observer = nullptr);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_BATCH_BATCHING_H_
