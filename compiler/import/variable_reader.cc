// Tests: tests/conformance/symbolic_test.cc and tests/e2e/symbolic_test.cc.
#include "compiler/import/variable_reader.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/import/program_nodes.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

absl::Status BadArgument(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); }

bool ByName(const v1::UOp& node) { return node.op() == v1::DEFINE_VAR || node.op() == v1::BUFFER; }

bool TakesSlot(const v1::UOp& node) { return node.op() == v1::PARAM || node.op() == v1::BUFFER; }

// A fully weak integer is int32, or int64 where it must be.
absl::StatusOr<DType> DTypeOf(const v1::BufferArg& arg) {
  const DType dtype = FromWire(arg.dtype());
  if (dtype == DType::kWeakint) {
    const bool narrow = arg.min_value() >= std::numeric_limits<int32_t>::min() &&
                        arg.max_value() <= std::numeric_limits<int32_t>::max();
    return narrow ? DType::kInt32 : DType::kInt64;
  }
  if (dtype == DType::kNone || !IsInt(dtype)) return BadArgument("a variable is an integer");
  return dtype;
}

}  // namespace

bool IsVariable(const v1::UOp& node) {
  if (node.op() == v1::DEFINE_VAR) return true;
  return TakesSlot(node) && node.has_buffer() && node.buffer().addrspace() == v1::ALU;
}

VariableReader::VariableReader(const v1::Graph& wire) {
  std::set<uint32_t> taken;
  uint32_t free = 0, arguments = 0;
  const std::vector<bool> reached = Reached(wire);
  for (int i = 0; i < wire.nodes_size(); ++i) {
    const v1::UOp& node = wire.nodes(i);
    if (!reached[i]) continue;
    if (node.op() == v1::FUNCTION || node.op() == v1::CALL)
      arguments = std::max(arguments, static_cast<uint32_t>(node.src_size()));
    if (!TakesSlot(node) && node.op() != v1::DEFINE_VAR && node.op() != v1::DEFINE_GLOBAL) continue;
    any_ |= IsVariable(node);
    free = std::max(free, std::min(node.buffer().slot(), 1u << 16) + 1);
    if (IsVariable(node) && ByName(node)) {
      // Of two, the lower: the order of nodes says nothing.
      const auto [known, is_new] = slot_of_.emplace(node.buffer().name(), node.buffer().slot());
      if (!is_new) known->second = std::min(known->second, node.buffer().slot());
    } else if (node.op() != v1::DEFINE_VAR) {
      taken.insert(node.buffer().slot());
    }
  }
  free = std::max(free, arguments);
  for (auto& [name, slot] : slot_of_) {
    if (slot >= arguments && taken.insert(slot).second) continue;
    slot = free++;
  }
  for (const v1::UOp& node : wire.nodes()) {
    if (IsVariable(node) && ByName(node) && slot_of_.try_emplace(node.buffer().name(), free).second) ++free;
  }
}

absl::StatusOr<UOp*> VariableReader::Read(Graph& graph, const v1::UOp& node, absl::Span<UOp* const> src) const {
  const v1::BufferArg& wire = node.buffer();
  if (!node.has_buffer()) return BadArgument("a variable wants a buffer argument with its name and range");
  if (wire.addrspace() != v1::ALU && wire.addrspace() != v1::ADDRSPACE_UNSPECIFIED)
    return BadArgument("a variable is in the address space ALU");
  if (src.size() > 1) return MakeError(v1::WRONG_SOURCE_COUNT, "a variable takes no source but its shape, ()");
  if (!src.empty() && (src[0]->op() != Op::STACK || !src[0]->src().empty()))
    return MakeError(v1::SHAPE_MISMATCH, "a variable is one integer: its shape is ()");
  if (!wire.has_min_value() || !wire.has_max_value() || wire.min_value() > wire.max_value())
    return BadArgument("a variable has a least and a greatest value (min_value, max_value)");
  BufferArg arg;
  KILN_ASSIGN_OR_RETURN(arg.dtype, DTypeOf(wire));
  const Bounds range = BoundsOf(arg.dtype);
  if (wire.min_value() < range.min || wire.max_value() > range.max) {
    return BadArgument(
        absl::StrCat("a variable from ", wire.min_value(), " to ", wire.max_value(), " is no ", Name(arg.dtype)));
  }
  if (ByName(node) && wire.name().empty()) return BadArgument("a variable that is no PARAM is known by its name");
  arg.slot = ByName(node) ? slot_of_.at(wire.name()) : wire.slot();
  if (arg.slot >= 1u << 16) return BadArgument(absl::StrCat("slot ", arg.slot, "; slots are below 65536"));
  arg.addrspace = AddrSpace::kAlu;
  arg.name = wire.name();
  arg.min = wire.min_value();
  arg.max = wire.max_value();
  return graph.TryMake(Op::PARAM, {ShapeSource(graph, {})}, arg);
}

}  // namespace kiln::compiler
