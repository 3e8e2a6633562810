// Vectors: STACK makes one of scalars, INDEX takes a lane out. The older ops are
// ways to write these.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/import/program_importer.h"
#include "compiler/import/settle.h"
#include "compiler/import/weak.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

absl::Status BadArgument(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); }

// (axis, size, axis, size, ...)
absl::StatusOr<int64_t> LanesOfAxes(const v1::UOp& node) {
  if (!node.has_axes() || node.axes().axis_size() % 2 != 0 || node.axes().axis().empty())
    return BadArgument(absl::StrCat(v1::Op_Name(node.op()), " wants axes and their sizes, in turn"));
  int64_t lanes = 1;
  for (int i = 1; i < node.axes().axis_size(); i += 2) {
    if (node.axes().axis(i) < 1 || node.axes().axis(i) > (1 << 16) || (lanes *= node.axes().axis(i)) > (1 << 16))
      return BadArgument("a size of an axis is below 1, or their product above 65536");
  }
  return lanes;
}

}  // namespace

UOp* Lane(Graph& graph, UOp* x, int64_t lane) {
  if (x->shape().empty()) return x;
  // A lane of lanes just put together is what was put there.
  if (x->op() == Op::STACK) return x->src(static_cast<size_t>(lane));
  return graph.Make(Op::INDEX, {x, Idx(graph, lane)});
}

absl::StatusOr<UOp*> ProgramImporter::Lanes(uint32_t index, std::vector<UOp*> src) {
  const v1::UOp& node = wire(index);
  if (node.op() == v1::VCONST && src.empty()) return VectorConst(node);
  const bool one = node.op() == v1::GEP || node.op() == v1::CONTRACT || node.op() == v1::UNROLL;
  if (src.empty() || (one && src.size() != 1))
    return MakeError(v1::WRONG_SOURCE_COUNT, absl::StrCat(v1::Op_Name(node.op()), " takes ",
                                                          one ? "one source" : "sources", ", not ", src.size()));
  size_t lanes = 0;
  for (UOp* source : src) {
    if (source->dtype() == DType::kVoid || source->shape().size() > 1 || !IsConst(source->shape()))
      return MakeError(v1::SHAPE_MISMATCH,
                       absl::StrCat(v1::Op_Name(node.op()), " wants scalars, or vectors whose lanes are a number"));
    lanes += source->shape().empty() ? 1 : static_cast<size_t>(source->shape()[0]);
  }
  if (lanes > limits_.max_stack_sources)
    return BadArgument(absl::StrCat("a vector of ", lanes, " lanes; at most ", limits_.max_stack_sources));
  switch (node.op()) {
    case v1::GEP: return PickLanes(node, src[0]);
    case v1::CONTRACT: return Contract(index, src[0]);
    case v1::UNROLL: {
      KILN_ASSIGN_OR_RETURN(const int64_t wanted, LanesOfAxes(node));
      if (src[0]->shape() != Shape{wanted})
        return MakeError(v1::SHAPE_MISMATCH, absl::StrCat("UNROLL over ", wanted, " lanes of a value of shape ",
                                                          ToString(src[0]->shape())));
      notes_[index].unrolled.assign(node.axes().axis().begin(), node.axes().axis().end());
      return src[0];
    }
    case v1::VECTORIZE:
    case v1::VCONST:
      for (UOp* source : src) {
        if (!source->shape().empty()) return MakeError(v1::SHAPE_MISMATCH, "lanes are scalars; CAT joins vectors");
      }
      break;
    default: break;  // CAT
  }
  KILN_RETURN_IF_ERROR(MeetSources(graph_, src, 0));
  std::vector<UOp*> scalars;
  for (UOp* source : src) {
    const int64_t n = source->shape().empty() ? 1 : int64_t{source->shape()[0]};
    for (int64_t i = 0; i < n; ++i) scalars.push_back(Lane(graph_, source, i));
  }
  return graph_.TryMake(Op::STACK, scalars);
}

// The lanes' bytes, little-endian, in the node's own dtype.
absl::StatusOr<UOp*> ProgramImporter::VectorConst(const v1::UOp& node) {
  const DType dtype = FromWire(node.dtype());
  const size_t item = static_cast<size_t>(ItemSize(dtype));
  if (node.arg_case() != v1::UOp::kData || item == 0 || IsWeak(dtype) || node.data().empty() ||
      node.data().size() % item != 0 || !Info(dtype).supported) {
    return BadArgument("VCONST wants CONSTs as sources, or its lanes' bytes as data and a dtype");
  }
  if (node.data().size() / item > limits_.max_stack_sources)
    return BadArgument(
        absl::StrCat("a vector of ", node.data().size() / item, " lanes; at most ", limits_.max_stack_sources));
  std::vector<UOp*> lanes;
  for (size_t at = 0; at < node.data().size(); at += item) {
    uint64_t bits = 0;
    std::memcpy(&bits, node.data().data() + at, item);
    lanes.push_back(ConstBits(graph_, dtype, IsIntOrBool(dtype) ? WrapInt(dtype, bits) : bits));
  }
  return graph_.TryMake(Op::STACK, lanes);
}

absl::StatusOr<UOp*> ProgramImporter::PickLanes(const v1::UOp& node, UOp* x) {
  const int64_t lanes = x->shape().empty() ? 1 : int64_t{x->shape()[0]};
  if (!node.has_axes() || node.axes().axis().empty()) return BadArgument("GEP wants the lanes that it takes as axes");
  if (static_cast<uint32_t>(node.axes().axis_size()) > limits_.max_stack_sources)
    return BadArgument(absl::StrCat("GEP of ", node.axes().axis_size(), " lanes; at most ", limits_.max_stack_sources));
  std::vector<UOp*> picked;
  for (int64_t lane : node.axes().axis()) {
    if (lane < 0 || lane >= lanes) return BadArgument(absl::StrCat("GEP takes lane ", lane, " of ", lanes));
    picked.push_back(Lane(graph_, x, lane));
  }
  return picked.size() == 1 ? picked[0] : graph_.TryMake(Op::STACK, picked);
}

// What UNROLL spread over axes, as one vector again. Other axes than those that
// `x` runs over would be a matter of how a whole kernel is expanded.
absl::StatusOr<UOp*> ProgramImporter::Contract(uint32_t index, UOp* x) {
  const v1::UOp& node = wire(index);
  KILN_ASSIGN_OR_RETURN(const int64_t lanes, LanesOfAxes(node));
  std::vector<int64_t>& unrolled = notes_[index].unrolled;
  const std::vector<int64_t> axes(node.axes().axis().begin(), node.axes().axis().end());
  const std::vector<int64_t> have = std::exchange(unrolled, {});
  if (have == axes && x->shape() == Shape{lanes}) return x;
  if (lanes > int64_t{limits_.max_stack_sources})
    return BadArgument(absl::StrCat("a vector of ", lanes, " lanes; at most ", limits_.max_stack_sources));
  if (have.empty() && x->shape().empty())  // the same in every lane
    return graph_.TryMake(Op::STACK, std::vector<UOp*>(static_cast<size_t>(lanes), x));
  return MakeError(v1::UNSUPPORTED_OP, "CONTRACT over other axes than its source is UNROLLed over");
}

}  // namespace kiln::compiler
