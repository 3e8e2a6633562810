// Which variables of a program are batch sizes: for each, whether the program works row by row in it
// (row_wise.h), or what forbids that. In words and slots, for those who know no node.
#ifndef KILN_COMPILER_BATCH_BATCHING_H_
#define KILN_COMPILER_BATCH_BATCHING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/callify.h"

namespace kiln::compiler {

// So many variables of a program are looked at, since each takes as long as the program is large. Further ones
// are batch sizes of nothing.
inline constexpr size_t kMaxBatchVariables = 8;

// Of one variable.
struct Batching {
  struct Part {
    bool varying = false;
    std::string rows;  // the leading size of one that varies: "batch", "batch*4"
  };
  struct Parameter : Part {
    uint32_t slot = 0;
    std::string name;
  };
  uint32_t slot = 0;
  std::string name;                   // "slot 3" for one without a name
  std::string obstacle;               // empty: row-wise, and only then is what follows filled
  std::vector<Parameter> parameters;  // in ascending order of slot
  std::vector<Part> results;          // in order

  bool row_wise() const { return obstacle.empty(); }
};

// One for each variable of `function`, in ascending order of slot. `calls` is what "rangeify" made of it.
std::vector<Batching> BatchingOf(Graph& graph, const Function& function, UOp* calls);

// For people: a line for each variable, and one for each parameter and result of those that are row-wise.
std::string BatchingText(absl::Span<const Batching> all);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_BATCH_BATCHING_H_
