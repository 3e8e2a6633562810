// All that one compile knows, in one value that its stages and passes share.
//
// What every pass may read stands first: the graph that owns the nodes, what the client asked for, the
// device, its code generator. Below is what one pass leaves beside the graph for another. A pass gets the
// nodes themselves as its root, never from here.
#ifndef KILN_COMPILER_PASS_LOWERING_H_
#define KILN_COMPILER_PASS_LOWERING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "compiler/batch/batching.h"
#include "compiler/ir/graph.h"
#include "compiler/opt/hoist.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/layouts.h"
#include "compiler/schedule/memory/memory_plan.h"
#include "compiler/shard/levels.h"
#include "compiler/shard/segments.h"
#include "compiler/shard/shares.h"
#include "compiler/spec/spec.h"
#include "compiler/target/target.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

class ChainNests;

// Of one kernel, or of one program written by hand, on its way to instructions. The first members are
// given, the others are what passes found.
struct Body {
  std::string symbol;                     // empty between the kernels
  uint32_t slots = 0;                     // arguments of its call
  const v1::Target* target = nullptr;     // what it has of the device
  const std::string* schedule = nullptr;  // in place of what the rules choose; may be null
  const ChainNests* nests = nullptr;      // of a chain, whose nests are lowered; else null
  UOp* client = nullptr;                  // the root before its first pass

  bool scanned = false;          // "scan" made its loops
  std::string opts;              // the OptOps that were chosen, or asked for
  uint32_t gates = 0;            // accesses that could not be proved
  std::vector<Hoisted> hoisted;  // what it reads beside its arguments: the PARAMs that follow theirs, in order
};

struct Lowering {
  // All outlive it. `watcher` may be null.
  Lowering(Graph& g, const Options& o, CompileObserver* watcher = nullptr) : graph(g), options(o), observer(watcher) {}
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;

  Graph& graph;
  const Options& options;
  CompileObserver* const observer;
  const v1::Graph* wire = nullptr;           // what import reads
  v1::Target target;                         // with the features that the options allow
  std::unique_ptr<CodeGenerator> generator;  // null before there is a target

  // -- The program
  Function function;
  absl::flat_hash_set<UOp*> marked;           // values that have to be realised
  absl::flat_hash_set<UOp*> realized;         // values that will be
  Layouts layouts;                            // of these
  absl::flat_hash_set<UOp*> results;          // BUFFERs that are the caller's
  absl::flat_hash_set<const UOp*> constants;  // parameters that stay the same from run to run
  std::vector<Batching> batching;             // of each variable; of a program for one device
  MemoryPlan plan;
  v1::Executable executable;

  // -- A program on several devices, before it is cut into programs for one
  Shares shares;
  std::optional<Levels> levels;
  Cut cut;

  // -- The kernel at hand
  Body body;

  // What the runner has verified last, so as not to do it twice (pipeline.h).
  const Spec* verified = nullptr;
  const UOp* verified_root = nullptr;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PASS_LOWERING_H_
