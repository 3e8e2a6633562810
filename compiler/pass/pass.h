// What a pass is: one row of the table in passes.cc.
#ifndef KILN_COMPILER_PASS_PASS_H_
#define KILN_COMPILER_PASS_PASS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/pass/lowering.h"

namespace kiln::compiler {

// The parts of a compile, in the order of the table.
enum class Stage {
  kImport,
  kCallify,
  kRangeify,
  kEntry,
  kCalls,
  kLoops,
  kAccumulators,
  kNests,
  kInstructions,
  kProgram,
  kCode,
  kImportShards,
  kShares,
  kSegments,
};

// When a pass has something to do.
struct Condition {
  absl::string_view words;                         // for people; empty: always
  bool (*holds)(const Lowering&, UOp*) = nullptr;  // asked before the pass runs
};

enum class Need { kRequired, kOptional };  // optional: Options::disabled_passes may name it

struct Pass {
  absl::string_view name;  // unique within its stage
  Need need;
  Condition when;
  // What is legal before and after; `before` null: not checked again; both null: it makes no graph.
  const Spec* before;
  const Spec* after;
  absl::string_view what;  // one line
  // A pass that makes no graph returns the root that it was given.
  std::function<absl::StatusOr<UOp*>(Lowering&, UOp* root)> run;
  // How to show what it made, and the ending of a file of it; without a function: the graph.
  std::function<std::string(const Lowering&)> text = nullptr;
  absl::string_view extension = "uop";
  // In place of `after` where that depends on the program or the target; may be null.
  const Spec* (*after_of)(const Lowering&) = nullptr;
};

struct StagePasses {
  Stage stage;
  absl::string_view name;   // one word
  absl::string_view takes;  // what its first pass is given
  // Whether all that its passes read is the graph: then each runs alone on a file. Else each of them
  // wants what those before it left beside the graph.
  bool alone;
  std::vector<Pass> passes;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PASS_PASS_H_
