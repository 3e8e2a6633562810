#include "compiler/import/program_importer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/import/program_list.h"
#include "compiler/import/program_nodes.h"
#include "compiler/import/settle.h"
#include "compiler/import/weak.h"
#include "compiler/import/wire_args.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"
#include "compiler/structure/code_text.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

// Accumulators number their slots apart from the storage that a client numbers.
constexpr uint32_t kFirstAccumulator = 1u << 24;
constexpr uint32_t kSlots = 1u << 16;

absl::Status WrongSources(absl::string_view what, size_t have) {
  return MakeError(v1::WRONG_SOURCE_COUNT, absl::StrCat(what, ", not ", have));
}

bool IsOldStorage(v1::Op op) { return op == v1::DEFINE_GLOBAL || op == v1::DEFINE_LOCAL || op == v1::DEFINE_REG; }

bool IsLoopOp(v1::Op op) { return op == v1::RANGE || op == v1::LOOP || op == v1::SPECIAL; }

// Where an INDEX with a mask may stand: ops that take its gate, or look at no value.
bool TakesGatedPointer(v1::Op op, int k) {
  switch (op) {
    case v1::LOAD:
    case v1::STORE:
    case v1::AFTER:
    case v1::NOOP:
    case v1::BITCAST: return true;
    case v1::IF: return k > 0;
    case v1::BARRIER:
    case v1::GROUP:
    case v1::SINK:
    case v1::LINEAR: return true;
    default: return false;
  }
}

// Where an op names the loop itself and not the value that counts it.
bool NamesLoop(v1::Op op, int k) {
  return k > 0 && (op == v1::END || op == v1::REDUCE || op == v1::AFTER || op == v1::DEFINE_ACC);
}

}  // namespace

ProgramImporter::ProgramImporter(const v1::Graph& wire, const Limits& limits, const StorageSizes* sizes, Graph& graph)
    : wire_(wire), limits_(limits), sizes_(sizes), graph_(graph), notes_(wire.nodes_size()) {
  const std::vector<bool> reached = Reached(wire);
  bool old_storage = false;
  for (uint32_t i = 0; i < reached.size(); ++i) {
    const v1::UOp& node = this->wire(i);
    old_storage |= IsOldStorage(node.op());
    takes_accumulators_slots_ |= node.has_buffer() && node.buffer().slot() >= kFirstAccumulator;
    if (node.op() != v1::LINEAR || !reached[i]) continue;
    has_list_ = true;
    for (uint32_t source : node.src()) {
      if (source < i) in_lists_.insert(&this->wire(source));
    }
  }
  if (old_storage) in_programs_ = NodesOfPrograms(wire);
}

absl::StatusOr<UOp*> ProgramImporter::Read(uint32_t index, std::vector<UOp*>& src) {
  const v1::Op op = wire(index).op();
  KILN_RETURN_IF_ERROR(RefuseCode(index));
  KILN_RETURN_IF_ERROR(KeepGates(index));
  KILN_RETURN_IF_ERROR(KeepUnrolled(index));
  for (size_t k = 0; k < src.size(); ++k) {
    UOp* loop = SourceNote(index, static_cast<int>(k)).loop;
    if (loop != nullptr && NamesLoop(op, static_cast<int>(k))) src[k] = loop;
  }
  switch (op) {
    case v1::DEFINE_GLOBAL:
    case v1::DEFINE_LOCAL:
    case v1::DEFINE_REG: return Storage(index, src);
    case v1::DEFINE_ACC: return Accumulator(index, src);
    case v1::ASSIGN: return Assign(index, src);
    case v1::RANGE:
    case v1::LOOP: return Loop(index, src);
    case v1::ENDLOOP:
    case v1::ENDRANGE: return EndLoop(index, src);
    case v1::INDEX: KILN_RETURN_IF_ERROR(PrepareIndex(index, src)); return nullptr;
    case v1::LOAD: return Load(index, src);
    case v1::STORE: KILN_RETURN_IF_ERROR(PrepareStore(index, src)); return nullptr;
    case v1::VECTORIZE:
    case v1::VCONST:
    case v1::GEP:
    case v1::CAT:
    case v1::CONTRACT:
    case v1::UNROLL: return Lanes(index, std::move(src));
    case v1::NOOP:
    case v1::NAME: return Nothing(index, src);
    case v1::LINEAR: return List(index);
    case v1::CUSTOM:
    case v1::CUSTOMI:
    case v1::INS: return Code(index, src);
    case v1::SOURCE: return graph_.Make(Op::GROUP, {});  // its text is read by its PROGRAM
    case v1::PROGRAM: return Program(index, src);
    default: return nullptr;
  }
}

absl::StatusOr<UOp*> ProgramImporter::Finish(uint32_t index, UOp* made) {
  const v1::UOp& node = wire(index);
  Note& note = notes_[index];
  if (IsLoopOp(node.op())) {
    if (note.loop == nullptr) note.loop = made;
    const DType asked = FromWire(node.dtype());
    if (IsInt(asked) && !IsWeak(asked)) made = Cast(graph_, made, asked);
    if (made != note.loop) note.lists = {{note.loop, made}};
  }
  if (node.src_size() > 0 && (node.op() == v1::AFTER || node.op() == v1::NOOP || node.op() == v1::BITCAST))
    note.gate = SourceNote(index, 0).gate;
  if (!note.lists.has_value()) {
    // A mere name of its source runs nothing again.
    const bool renames =
        std::any_of(node.src().begin(), node.src().end(), [&](uint32_t source) { return made_[source] == made; });
    note.lists.emplace();
    if (!renames && !(has_list_ && IsRecastPointer(made))) note.lists->push_back(made);
  }
  for (UOp* listed : *note.lists) graph_.SetOrigin(listed, index);
  made_.push_back(made);
  return made;
}

absl::Status ProgramImporter::KeepGates(uint32_t index) {
  const v1::UOp& node = wire(index);
  for (int k = 0; k < node.src_size(); ++k) {
    if (SourceNote(index, k).gate == nullptr || TakesGatedPointer(node.op(), k)) continue;
    return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("source ", k,
                                                      " is an INDEX with a validity mask; only LOAD and STORE know "
                                                      "what to do where it is false"));
  }
  return absl::OkStatus();
}

// Lanes over different axes would have to be multiplied out.
absl::Status ProgramImporter::KeepUnrolled(uint32_t index) {
  const v1::UOp& node = wire(index);
  std::vector<int64_t>& unrolled = notes_[index].unrolled;
  for (int k = 0; k < node.src_size(); ++k) {
    const std::vector<int64_t>& axes = SourceNote(index, k).unrolled;
    if (axes.empty() || node.op() == v1::LINEAR || node.op() == v1::SINK || node.op() == v1::GROUP) continue;
    if (!unrolled.empty() && unrolled != axes)
      return MakeError(v1::UNSUPPORTED_OP, "operands UNROLLed over different axes; CONTRACT them first");
    unrolled = axes;
  }
  return absl::OkStatus();
}

absl::StatusOr<UOp*> ProgramImporter::Storage(uint32_t index, const std::vector<UOp*>& src) {
  const v1::UOp& node = wire(index);
  if (!node.has_buffer()) return MakeError(v1::BAD_ARGUMENT, "storage wants a buffer argument: its slot and dtype");
  if (src.size() > 1) return WrongSources("storage takes one source, its shape, or none", src.size());
  v1::BufferArg buffer = node.buffer();
  if (buffer.dtype() == v1::DTYPE_UNSPECIFIED) buffer.set_dtype(node.dtype());
  if (node.op() != v1::DEFINE_GLOBAL) buffer.set_addrspace(node.op() == v1::DEFINE_LOCAL ? v1::LOCAL : v1::REG);
  KILN_ASSIGN_OR_RETURN(Arg arg, ReadBuffer(buffer));
  const Op op = node.op() == v1::DEFINE_GLOBAL ? Op::PARAM : Op::BUFFER;
  if (!src.empty()) return graph_.TryMake(op, src, std::move(arg));
  const int64_t elements = sizes_ == nullptr ? kMaxElements : sizes_->at(index);
  UOp* storage = graph_.Make(op, {ShapeSource(graph_, {elements})}, std::move(arg));
  unsized_.emplace_back(index, storage);
  return storage;
}

absl::StatusOr<UOp*> ProgramImporter::Accumulator(uint32_t index, const std::vector<UOp*>& src) {
  const v1::UOp& node = wire(index);
  if (src.empty()) return WrongSources("DEFINE_ACC takes (start value, range...)", 0);
  if (!node.has_buffer()) return MakeError(v1::BAD_ARGUMENT, "DEFINE_ACC wants a buffer argument: its slot and dtype");
  v1::BufferArg buffer = node.buffer();
  if (buffer.slot() >= kSlots)
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("slot ", buffer.slot(), "; slots are below ", kSlots));
  if (takes_accumulators_slots_) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("a DEFINE_ACC beside storage in a slot from ", kFirstAccumulator,
                                                    " on, which are the accumulators'; slots are below ", kSlots));
  }
  if (buffer.dtype() == v1::DTYPE_UNSPECIFIED) buffer.set_dtype(node.dtype());
  buffer.set_addrspace(v1::REG);
  KILN_ASSIGN_OR_RETURN(Arg arg, ReadBuffer(buffer));
  std::get<BufferArg>(arg).slot += kFirstAccumulator;
  const DType dtype = std::get<BufferArg>(arg).dtype;
  UOp* start = src[0];
  if (IsWeak(start->dtype())) {
    KILN_ASSIGN_OR_RETURN(start, Strengthen(graph_, start, dtype));
  }
  const Shape shape = start->shape();
  if (shape.size() > 1 || !IsConst(shape))
    return MakeError(v1::SHAPE_MISMATCH, absl::StrCat("an accumulator is a scalar or a vector, of lanes that are a "
                                                      "number; its start has the shape ",
                                                      ToString(shape)));
  UOp* storage = graph_.Make(Op::BUFFER, {ShapeSource(graph_, shape.empty() ? Shape{1} : shape)}, std::move(arg));
  const auto place_in = [&](UOp* memory) {
    return shape.empty() ? graph_.Make(Op::INDEX, {memory, Idx(graph_, 0)})
                         : graph_.Make(Op::SHRINK, {memory, Idx(graph_, 0), Idx(graph_, shape[0])});
  };
  KILN_ASSIGN_OR_RETURN(UOp * first, graph_.TryMake(Op::STORE, {place_in(storage), start}));
  Note& note = notes_[index];
  note.loops.assign(src.begin() + 1, src.end());
  for (UOp* loop : note.loops) {
    if (loop->op() != Op::RANGE) return MakeError(v1::BAD_ARGUMENT, "DEFINE_ACC's further sources must be RANGEs");
  }
  if (!has_list_) {
    // In a DAG, order is said by AFTER.
    std::vector<UOp*> started = {storage, first};
    started.insert(started.end(), note.loops.begin(), note.loops.end());
    note.accumulator = place_in(graph_.Make(Op::AFTER, started));
    return graph_.Make(Op::LOAD, {note.accumulator});
  }
  note.accumulator = place_in(storage);
  note.lists = {{storage, first}};
  UOp* value = graph_.Make(Op::LOAD, {note.accumulator});
  reread_.insert(value);
  return value;
}

absl::StatusOr<UOp*> ProgramImporter::Assign(uint32_t index, const std::vector<UOp*>& src) {
  if (src.size() != 2 || SourceNote(index, 0).accumulator == nullptr) return nullptr;
  const Note target = SourceNote(index, 0);
  UOp* value = src[1];
  if (IsWeak(value->dtype())) {
    KILN_ASSIGN_OR_RETURN(value, Strengthen(graph_, value, target.accumulator->dtype()));
  }
  KILN_ASSIGN_OR_RETURN(UOp * store, graph_.TryMake(Op::STORE, {target.accumulator, value}));
  Note& note = notes_[index];
  note.accumulator = target.accumulator;
  note.loops = target.loops;
  note.lists = {{store}};
  if (has_list_) return graph_.Make(Op::LOAD, {target.accumulator});
  UOp* done = store;
  if (!target.loops.empty()) {
    std::vector<UOp*> closed = {store};
    closed.insert(closed.end(), target.loops.begin(), target.loops.end());
    done = graph_.Make(Op::END, closed);
  }
  UOp* place = target.accumulator;
  std::vector<UOp*> parts(place->src().begin(), place->src().end());
  parts[0] = graph_.Make(Op::AFTER, {StorageUnder(place), done});
  return graph_.Make(Op::LOAD, {graph_.Make(place->op(), parts)});
}

absl::StatusOr<UOp*> ProgramImporter::Nothing(uint32_t index, const std::vector<UOp*>& src) {
  if (src.size() > 1)
    return WrongSources(absl::StrCat(v1::Op_Name(wire(index).op()), " takes one source or none"), src.size());
  return src.empty() ? graph_.Make(Op::GROUP, {}) : src[0];
}

absl::StatusOr<UOp*> ProgramImporter::List(uint32_t index) {
  const v1::UOp& node = wire(index);
  if (static_cast<uint32_t>(node.src_size()) > limits_.max_instructions) {
    return TooLarge("instructions", limits_.max_instructions, static_cast<uint64_t>(node.src_size()),
                    absl::StrCat("a LINEAR of ", node.src_size(), " instructions; this server takes at most ",
                                 limits_.max_instructions));
  }
  // An accumulator starts before the first of its loops, wherever it is listed.
  std::map<UOp*, int> first_listing;
  std::vector<std::vector<uint32_t>> at(node.src_size());
  for (int k = 0; k < node.src_size(); ++k) {
    const Note& note = SourceNote(index, k);
    if (note.loop != nullptr) first_listing.try_emplace(note.loop, k);
    int place = k;
    if (wire(node.src(k)).op() == v1::DEFINE_ACC) {
      for (UOp* loop : note.loops) {
        const auto listed = first_listing.find(loop);
        if (listed != first_listing.end()) place = std::min(place, listed->second);
      }
    }
    // Before what is listed there, unless it is that itself.
    at[place].push_back(node.src(k));
    if (place != k) std::rotate(at[place].begin(), at[place].end() - 1, at[place].end());
  }
  ProgramList list(graph_, reread_);
  absl::flat_hash_set<const UOp*> listed;
  for (const std::vector<uint32_t>& group : at) {
    for (uint32_t source : group) {
      if (absl::Status waits = CheckWaits(source, listed); !waits.ok())
        return WithNode(waits, source, v1::Op_Name(wire(source).op()), wire(source).tag());
      listed.insert(made_[source]);
      for (UOp* uop : *notes_[source].lists) {
        if (absl::Status added = list.Add(uop); !added.ok())
          return WithNode(added, source, v1::Op_Name(wire(source).op()), wire(source).tag());
      }
    }
  }
  Arg arg = KernelArg();
  if (node.arg_case() != v1::UOp::ARG_NOT_SET) {
    KILN_ASSIGN_OR_RETURN(arg, ReadArg(node));
  }
  return graph_.TryMake(Op::LINEAR, list.Take(), std::move(arg));
}

}  // namespace kiln::compiler
