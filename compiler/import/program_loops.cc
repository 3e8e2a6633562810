// RANGE, LOOP and what closes them, in the spellings of every age. Tested by
// program_importer_test.
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/import/program_importer.h"
#include "compiler/import/weak.h"
#include "compiler/ir/build.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

absl::Status WrongSources(absl::string_view what, size_t have) {
  return MakeError(v1::WRONG_SOURCE_COUNT, absl::StrCat(what, ", not ", have));
}

}  // namespace

absl::StatusOr<RangeArg> ProgramImporter::LoopArg(uint32_t index) {
  const v1::UOp& node = wire(index);
  RangeArg arg;
  if (node.has_range()) {
    const auto& range = node.range();
    if (range.axis_id().empty() || range.axis_id_size() > 32 || range.type() < 0 || range.type() > v1::AXIS_OUTER)
      return MakeError(v1::BAD_ARGUMENT, "RANGE wants its axis ids, one or a few, and a type");
    const std::vector<int64_t> ids(range.axis_id().begin(), range.axis_id().end());
    if (ids.size() == 1) {
      arg.id = ids[0];
    } else {
      const auto [known, is_new] = loop_ids_.try_emplace(ids, 0);
      if (is_new) known->second = graph_.NextId();
      arg.id = known->second;
    }
    arg.type = static_cast<AxisType>(range.type());
  } else if (node.arg_case() != v1::UOp::ARG_NOT_SET) {
    return MakeError(v1::BAD_ARGUMENT, "a loop's argument is a range: its axis ids and type");
  } else if (node.op() == v1::RANGE && !legacy()) {
    return MakeError(v1::BAD_ARGUMENT, "RANGE wants one axis id and a type");
  } else {
    arg.id = graph_.NextId();  // loops of equal bounds are not the same loop
  }
  return arg;
}

absl::StatusOr<UOp*> ProgramImporter::Loop(uint32_t index, std::vector<UOp*> src) {
  const v1::UOp& node = wire(index);
  if (src.empty()) return WrongSources("a loop takes its bound", 0);
  // The older ages count from a start; today's RANGE waits for what follows its bound.
  if (node.op() == v1::RANGE && !legacy()) {
    if (src.size() > 1 && !in_lists_.contains(&node)) {
      return MakeError(v1::UNSUPPORTED_OP,
                       "RANGE(bound, dep...) is an instruction of a LINEAR; elsewhere AFTER says what comes first. "
                       "RANGE(start, end) is read in dialect LEGACY_2025");
    }
    src.resize(1);
  }
  if (src.size() > 2) return WrongSources("a loop takes (end) or (start, end)", src.size());
  for (UOp*& bound : src) {
    if (!IsInt(bound->dtype()) || !bound->shape().empty())
      return MakeError(v1::SHAPE_MISMATCH, absl::StrCat(v1::Op_Name(node.op()), " wants integers as its bounds"));
  }
  KILN_ASSIGN_OR_RETURN(const RangeArg arg, LoopArg(index));
  const bool from_zero = src.size() == 1 || src[0]->IsConstInt(0);
  UOp* bound = src.back();
  UOp* start = nullptr;
  if (!from_zero) {
    for (UOp*& end : src) {
      KILN_ASSIGN_OR_RETURN(end, Strengthen(graph_, end, kIndexType));
    }
    start = src[0];
    bound = Add(graph_, src[1], Mul(graph_, start, Idx(graph_, -1)));
  } else if (bound->op() != Op::CONST) {
    KILN_ASSIGN_OR_RETURN(bound, StrengthenByDefault(graph_, bound));
  }
  KILN_ASSIGN_OR_RETURN(UOp * loop, graph_.TryMake(Op::RANGE, {bound}, arg));
  notes_[index].loop = loop;
  return start == nullptr ? loop : Add(graph_, loop, start);
}

absl::StatusOr<UOp*> ProgramImporter::EndLoop(uint32_t index, const std::vector<UOp*>& src) {
  if (src.size() != 1) return WrongSources("it closes one loop, its source", src.size());
  UOp* loop = SourceNote(index, 0).loop;
  if (loop == nullptr || loop->op() != Op::RANGE)
    return MakeError(v1::BAD_ARGUMENT,
                     absl::StrCat(v1::Op_Name(wire(index).op()), " closes a RANGE or LOOP, not ", Name(src[0]->op())));
  return graph_.TryMake(Op::END, {graph_.Make(Op::GROUP, {}), loop});
}

// As of an AFTER's: each is listed before, or needs no place in a list.
absl::Status ProgramImporter::CheckWaits(uint32_t range, const absl::flat_hash_set<const UOp*>& listed) const {
  const v1::UOp& node = wire(range);
  if (node.op() != v1::RANGE || legacy()) return absl::OkStatus();
  for (int k = 1; k < node.src_size(); ++k) {
    const UOp* dep = made_[node.src(k)];
    if (listed.contains(dep) || NeedsNoListing(dep)) continue;
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("source ", k, " (", v1::Op_Name(wire(node.src(k)).op()),
                                                    ") is not listed before it"));
  }
  return absl::OkStatus();
}

}  // namespace kiln::compiler
