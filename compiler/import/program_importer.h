// Programs written by hand, as any age of the frontends spells them, read as core
// ops (docs/ir.md, "Older spellings").
//
// What this adds to the ordinary reading of a node (wire.cc):
//   DEFINE_GLOBAL, DEFINE_LOCAL, DEFINE_REG   PARAM, BUFFER; a shape source that is
//            missing is the least that holds every access (storage_sizes.h)
//   DEFINE_ACC(init, range...), ASSIGN        a BUFFER in REG: its first STORE stands
//            before the loops, every use is a LOAD, ASSIGN is a STORE whose value
//            is what the accumulator then holds
//   LOOP(start, end), ENDLOOP, ENDRANGE   RANGE from 0, plus start; END. In dialect
//            LEGACY_2025 RANGE is LOOP. A dtype on a RANGE, LOOP or SPECIAL asks for a CAST
//   RANGE(bound, dep...)                      in today's LINEAR: RANGE, the deps listed before it
//   LOAD(buf, idx[, gate, alt, barrier]), LOAD(INDEX[, alt, gate, barrier]),
//   STORE(buf, idx, val[, gate]), INDEX(buf, idx, valid), STORE of lanes to one place
//            INDEX or SHRINK with LOAD and STORE, whose gates are joined
//   VECTORIZE, VCONST, GEP, CAT, CONTRACT, UNROLL   STACK, and INDEX of a value
//   LINEAR                                    its list in core ops (program_list.h)
//   PROGRAM(SINK, LINEAR, SOURCE, ...)        its LINEAR, with the SOURCE as its text; without
//            a LINEAR, its SINK
// What two ages mean differently, the dialect decides, and the graph's hash knows it
// (proto/README.md, "Op name"). What can mean one thing only is read as that in both: what has no
// value is waited for; a bool among the extras of a LOAD is its gate, unless the memory is
// bool itself: then the position decides.
#ifndef KILN_COMPILER_IMPORT_PROGRAM_IMPORTER_H_
#define KILN_COMPILER_IMPORT_PROGRAM_IMPORTER_H_

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options/options.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// Elements of storage that came without a shape, by its node.
using StorageSizes = std::map<uint32_t, int64_t>;

class ProgramImporter {
 public:
  // `sizes` may be null: then storage without a shape gets a size that no graph
  // could have, and sizes_wanted() says which do.
  ProgramImporter(const v1::Graph& wire, const Limits& limits, const StorageSizes* sizes, Graph& graph);

  // Node `index`, whose sources came out as `src`, if its op is one of the above;
  // otherwise nullptr, and `src` in core order for the ordinary reading.
  absl::StatusOr<UOp*> Read(uint32_t index, std::vector<UOp*>& src);

  // Told of every node, in order, once it is made: the node as its users see it.
  absl::StatusOr<UOp*> Finish(uint32_t index, UOp* made);

  // Storage without a shape: its node and what stands for it.
  const std::vector<std::pair<uint32_t, UOp*>>& unsized() const { return unsized_; }

 private:
  // What is known of a node of the wire besides the core node that it became.
  struct Note {
    std::optional<std::vector<UOp*>> lists;  // what listing it lists; default: the core node
    UOp* gate = nullptr;                     // of an INDEX with a validity mask
    UOp* loop = nullptr;                     // the RANGE in a RANGE or LOOP
    UOp* accumulator = nullptr;              // the place of a DEFINE_ACC
    std::vector<UOp*> loops;                 // that a DEFINE_ACC starts anew before
    std::vector<int64_t> unrolled;           // axes and sizes that its lanes run over
  };

  const v1::UOp& wire(uint32_t index) const { return wire_.nodes(static_cast<int>(index)); }
  Note& SourceNote(uint32_t index, int k) { return notes_[wire(index).src(k)]; }
  bool legacy() const { return wire_.dialect() == v1::LEGACY_2025; }

  // -- program_importer.cc
  absl::StatusOr<UOp*> Storage(uint32_t index, const std::vector<UOp*>& src);
  absl::StatusOr<UOp*> Accumulator(uint32_t index, const std::vector<UOp*>& src);
  absl::StatusOr<UOp*> Assign(uint32_t index, const std::vector<UOp*>& src);
  absl::StatusOr<UOp*> Nothing(uint32_t index, const std::vector<UOp*>& src);
  absl::StatusOr<UOp*> List(uint32_t index);
  absl::StatusOr<UOp*> Code(uint32_t index, std::vector<UOp*> src);
  absl::StatusOr<UOp*> Program(uint32_t index, const std::vector<UOp*>& src);
  absl::Status RefuseCode(uint32_t index) const;
  absl::Status KeepGates(uint32_t index);
  absl::Status KeepUnrolled(uint32_t index);

  // -- program_loops.cc
  absl::StatusOr<UOp*> Loop(uint32_t index, std::vector<UOp*> src);
  absl::StatusOr<RangeArg> LoopArg(uint32_t index);
  absl::StatusOr<UOp*> EndLoop(uint32_t index, const std::vector<UOp*>& src);
  absl::Status CheckWaits(uint32_t range, const absl::flat_hash_set<const UOp*>& listed) const;

  // -- program_memory.cc
  absl::Status PrepareIndex(uint32_t index, std::vector<UOp*>& src);
  absl::StatusOr<UOp*> Load(uint32_t index, std::vector<UOp*>& src);
  absl::Status PrepareStore(uint32_t index, std::vector<UOp*>& src);
  bool IsOldAccess(uint32_t index, const std::vector<UOp*>& src) const;
  absl::StatusOr<UOp*> Pointer(UOp* storage, UOp* place);

  // -- program_lanes.cc
  absl::StatusOr<UOp*> Lanes(uint32_t index, std::vector<UOp*> src);
  absl::StatusOr<UOp*> VectorConst(const v1::UOp& node);
  absl::StatusOr<UOp*> PickLanes(const v1::UOp& node, UOp* x);
  absl::StatusOr<UOp*> Contract(uint32_t index, UOp* x);

  const v1::Graph& wire_;
  const Limits& limits_;
  const StorageSizes* sizes_;
  Graph& graph_;
  bool has_list_ = false;  // the graph is a program, or holds one
  bool takes_accumulators_slots_ = false;
  absl::flat_hash_set<const v1::UOp*> in_lists_;     // listed by a LINEAR
  absl::flat_hash_set<const v1::UOp*> in_programs_;  // looked for if there is storage in an older spelling
  std::vector<Note> notes_;
  std::vector<UOp*> made_;
  absl::flat_hash_set<UOp*> reread_;  // LOADs of accumulators
  std::vector<std::pair<uint32_t, UOp*>> unsized_;
  std::map<std::vector<int64_t>, int64_t> loop_ids_;  // of RANGEs with several axis ids
};

// A pointer seen as another dtype of the same size: LOAD and STORE look through it.
bool IsRecastPointer(const UOp* uop);

// One lane of `x`; `x` itself if it has no lanes.
UOp* Lane(Graph& graph, UOp* x, int64_t lane);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_PROGRAM_IMPORTER_H_
