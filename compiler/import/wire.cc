#include "compiler/import/wire.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "compiler/import/as_sent.h"
#include "compiler/import/functions.h"
#include "compiler/import/legacy/legacy_devices.h"
#include "compiler/import/legacy/legacy_tensor.h"
#include "compiler/import/program_importer.h"
#include "compiler/import/program_nodes.h"
#include "compiler/import/settle.h"
#include "compiler/import/spellings.h"
#include "compiler/import/storage_sizes.h"
#include "compiler/import/variable_reader.h"
#include "compiler/import/wire_args.h"
#include "compiler/structure/variables.h"

namespace kiln::compiler {
namespace {

absl::Status BadArgument(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); }

// Core nodes, and sources of them, for each node that a client may send.
constexpr uint32_t kMaxPerNode = 64;

absl::Status GraphHas(uint64_t used, absl::string_view limit, uint64_t limit_value) {
  return TooLarge(limit, limit_value, used,
                  absl::StrCat("the graph has ", used, " ", limit, "; this server takes at most ", limit_value));
}

bool IsElementwiseSpelling(v1::Op op) {
  return (IsCoreOp(op) && IsElementwise(static_cast<Op>(op))) || op == v1::SUB || op == v1::MULACC || op == v1::IDIV ||
         op == v1::MOD || (op >= v1::CMPGT && op <= v1::CMPEQ);
}

// What reading one graph remembers from node to node.
struct Reading {
  Reading(const v1::Graph& wire, const Limits& limits, const StorageSizes* sizes, Graph& graph)
      : wire(wire),
        limits(limits),
        graph(graph),
        inliner(graph, limits.max_nodes),
        importer(wire, limits, sizes, graph),
        variables(wire) {
    reached = Reached(wire);
    if (variables.any()) in_programs = NodesOfPrograms(wire);
    for (const v1::UOp& node : wire.nodes()) {
      if (node.op() == v1::FUNCTION && node.src_size() > 0) ++uses_of_body[node.src(0)];
    }
  }

  const v1::Graph& wire;
  const Limits& limits;
  Graph& graph;
  FunctionInliner inliner;
  ProgramImporter importer;
  const VariableReader variables;
  std::vector<bool> reached;                        // by node
  absl::flat_hash_set<const v1::UOp*> in_programs;  // looked for if there are variables
  absl::flat_hash_map<uint32_t, int> uses_of_body;  // by FUNCTIONs
  std::vector<UOp*> made;                           // by node
  absl::flat_hash_set<const UOp*> located;          // whose origin is known
};

// `made`, and all that was made on the way to it, come from node `index`: a spelling
// is several core nodes, any of which may fail later.
void SetOrigins(Reading& reading, UOp* made, uint32_t index) {
  std::vector<UOp*> stack = {made};
  while (!stack.empty()) {
    UOp* uop = stack.back();
    stack.pop_back();
    if (!reading.located.insert(uop).second) continue;
    reading.graph.SetOrigin(uop, index);
    stack.insert(stack.end(), uop->src().begin(), uop->src().end());
  }
}

// What is resolved where it is read: functions and bound variables. nullptr for
// any other op.
absl::StatusOr<UOp*> Resolve(Reading& reading, uint32_t index, absl::Span<UOp* const> src, const Arg& arg) {
  const v1::UOp& node = reading.wire.nodes(static_cast<int>(index));
  const bool binds = node.op() == v1::BIND && src.size() == 2;
  const bool stores = node.op() == v1::AFTER && !src.empty() && src[0]->IsVariable();
  if ((binds || stores) && !reading.reached[index]) return src[0];
  if (binds) return Bind(reading.graph, src[0], src[1]);
  if (stores) return BindByStore(reading.graph, src);
  if (node.op() == v1::FUNCTION && !src.empty())
    return reading.inliner.Function(src[0], src.subspan(1), reading.uses_of_body[node.src(0)] > 1);
  if ((node.op() == v1::CALL || node.op() == v1::KERNEL) && !src.empty())
    return reading.inliner.Call(src[0], src.subspan(1));
  if (node.op() != v1::GETTUPLE) return nullptr;
  KILN_ASSIGN_OR_RETURN(UOp * element, reading.graph.TryMake(Op::GETTUPLE, src, arg));
  return element->src(0)->src(static_cast<size_t>(std::get<int64_t>(arg)));
}

absl::StatusOr<UOp*> MakeOrdinary(Reading& reading, uint32_t index, std::vector<UOp*> src, Arg arg) {
  const v1::UOp& node = reading.wire.nodes(static_cast<int>(index));
  const Limits& limits = reading.limits;
  Graph& graph = reading.graph;
  if (IsElementwiseSpelling(node.op())) KILN_RETURN_IF_ERROR(MeetSources(graph, src, node.op() == v1::WHERE ? 1 : 0));
  if (node.op() == v1::STACK) {
    if (src.size() > limits.max_stack_sources)
      return GraphHas(src.size(), "sources of a STACK", limits.max_stack_sources);
    KILN_RETURN_IF_ERROR(MeetSources(graph, src, 0));
  }
  KILN_RETURN_IF_ERROR(SettleWeak(graph, node.op(), src));
  KILN_ASSIGN_OR_RETURN(UOp * uop, Resolve(reading, index, src, arg));
  if (uop != nullptr) return uop;
  // In a program, SHRINK is a pointer: its place is an integer like any other.
  const bool points = node.op() == v1::SHRINK && reading.in_programs.contains(&node);
  if (IsCoreOp(node.op()) && !points) KILN_RETURN_IF_ERROR(FoldSizes(graph, static_cast<Op>(node.op()), src));
  return MakeSpelled(graph, node.op(), reading.wire.dialect(), std::move(src), std::move(arg));
}

absl::Status CheckDType(const v1::UOp& node, const UOp* uop) {
  if (node.dtype() == v1::DTYPE_UNSPECIFIED || FromWire(node.dtype()) == uop->dtype()) return absl::OkStatus();
  return MakeError(v1::DTYPE_MISMATCH, absl::StrCat("the node says it is ", v1::DType_Name(node.dtype()),
                                                    " but derives as ", Name(uop->dtype())));
}

absl::StatusOr<UOp*> ReadNode(Reading& reading, uint32_t index) {
  const v1::Graph& wire = reading.wire;
  const std::vector<UOp*>& made = reading.made;
  const v1::UOp& node = wire.nodes(index);
  if (!v1::Op_IsValid(node.op()) || node.op() == v1::OP_UNSPECIFIED) {
    return MakeError(v1::UNKNOWN_OP,
                     absl::StrCat("op number ", static_cast<int>(node.op()), " is not one this server knows"));
  }
  std::vector<UOp*> src;
  src.reserve(node.src_size());
  for (uint32_t source : node.src()) {
    if (source >= static_cast<uint32_t>(wire.nodes_size())) {
      return MakeError(v1::SOURCE_OUT_OF_RANGE,
                       absl::StrCat("source ", source, " of a graph of ", wire.nodes_size(), " nodes"));
    }
    if (source >= index) {
      return MakeError(v1::GRAPH_CYCLE,
                       absl::StrCat("source ", source, " is not before its user; nodes must be in topological order"));
    }
    src.push_back(made[source]);
  }
  if (IsVariable(node)) {
    KILN_ASSIGN_OR_RETURN(UOp * variable, reading.variables.Read(reading.graph, node, src));
    if (node.dtype() != v1::WEAKINT) KILN_RETURN_IF_ERROR(CheckDType(node, variable));
    return reading.importer.Finish(index, variable);
  }
  KILN_ASSIGN_OR_RETURN(Arg arg, ReadArg(node));
  UOp* uop = nullptr;
  // The older spellings know sizes that are numbers only.
  if (std::all_of(src.begin(), src.end(), [](const UOp* source) { return IsConst(source->shape()); })) {
    KILN_ASSIGN_OR_RETURN(uop, ReadLegacyTensor(reading.graph, wire, index, src, arg));
    if (uop == nullptr) {
      KILN_ASSIGN_OR_RETURN(uop, ReadLegacyDevices(reading.graph, node, src));
    }
  }
  if (uop == nullptr) {
    KILN_ASSIGN_OR_RETURN(uop, reading.importer.Read(index, src));
  }
  if (uop == nullptr) {
    KILN_ASSIGN_OR_RETURN(uop, MakeOrdinary(reading, index, std::move(src), std::move(arg)));
  }
  KILN_ASSIGN_OR_RETURN(uop, reading.importer.Finish(index, uop));
  const bool counts = node.op() == v1::RANGE || node.op() == v1::LOOP || node.op() == v1::SPECIAL;
  if (!counts || node.dtype() != v1::WEAKINT) KILN_RETURN_IF_ERROR(CheckDType(node, uop));
  return uop;
}

// The root, every node of the wire made.
absl::StatusOr<UOp*> ReadAll(Reading& reading) {
  const v1::Graph& wire = reading.wire;
  const Limits& limits = reading.limits;
  reading.made.reserve(wire.nodes_size());
  std::vector<uint64_t> depth(wire.nodes_size(), 1);
  for (int i = 0; i < wire.nodes_size(); ++i) {
    absl::StatusOr<UOp*> uop = ReadNode(reading, i);
    if (!uop.ok()) {
      const v1::UOp& node = wire.nodes(i);
      const std::string name = SentName(node);
      const absl::Status located = WithNode(uop.status(), i, name, node.tag());
      return Annotate(AsSent(located, wire), absl::StrCat("node ", i, " (", name, ")"));
    }
    reading.made.push_back(*uop);
    // Vectors of many lanes, views of views: one node of a spelling may be many of the core.
    const uint64_t limit_value = uint64_t{kMaxPerNode} * limits.max_nodes;
    const uint64_t parts = reading.graph.size() + reading.graph.sources();
    if (parts > limit_value) return GraphHas(parts, "core nodes and sources", limit_value);
    SetOrigins(reading, *uop, static_cast<uint32_t>(i));
    const v1::UOp& node = wire.nodes(i);
    // The arguments of a function come to stand below its body.
    const bool call = node.op() == v1::FUNCTION || node.op() == v1::CALL || node.op() == v1::KERNEL;
    for (int k = call ? 1 : 0; k < node.src_size(); ++k) depth[i] = std::max(depth[i], depth[node.src(k)] + 1);
    if (call) depth[i] += depth[node.src(0)];
    if (depth[i] > limits.max_depth) return GraphHas(depth[i], "levels of depth", limits.max_depth);
  }
  UOp* root = reading.made.back();
  // A program may be one CALL: then its effects are all there is.
  const bool called = wire.nodes(wire.nodes_size() - 1).op() == v1::CALL;
  return called && (root->op() == Op::GROUP || root->op() == Op::CALL) ? reading.graph.Make(Op::SINK, {root}) : root;
}

}  // namespace

absl::StatusOr<UOp*> FromWire(const v1::Graph& wire, const Limits& limits, Graph& graph) {
  if (wire.nodes_size() == 0) return MakeError(v1::GRAPH_EMPTY, "the graph has no nodes; its last node is its root");
  if (static_cast<uint32_t>(wire.nodes_size()) > limits.max_nodes)
    return GraphHas(static_cast<uint64_t>(wire.nodes_size()), "nodes", limits.max_nodes);
  if (wire.ByteSizeLong() > limits.max_bytes) return GraphHas(wire.ByteSizeLong(), "bytes", limits.max_bytes);
  if (!v1::Dialect_IsValid(wire.dialect())) return BadArgument("an unknown dialect");
  // Each becomes a STORE, and millions are a short message.
  const v1::UOp& last = wire.nodes(wire.nodes_size() - 1);
  if (last.op() == v1::TUPLE && static_cast<uint32_t>(last.src_size()) > limits.max_kernels)
    return GraphHas(static_cast<uint64_t>(last.src_size()), "STOREs and results", limits.max_kernels);

  StorageSizes sizes;
  if (LacksShapes(wire)) {
    Graph scratch;
    Reading trial(wire, limits, nullptr, scratch);
    KILN_ASSIGN_OR_RETURN(UOp * root, ReadAll(trial));
    KILN_ASSIGN_OR_RETURN(sizes, LeastSizes(root, trial.importer.unsized(), wire));
  }
  Reading reading(wire, limits, &sizes, graph);
  return ReadAll(reading);
}

v1::Graph ToWire(UOp* root) {
  v1::Graph wire;
  absl::flat_hash_map<UOp*, uint32_t> number;
  for (UOp* uop : Toposort(root)) {
    number[uop] = wire.nodes_size();
    v1::UOp* node = wire.add_nodes();
    node->set_op(static_cast<v1::Op>(uop->op()));
    node->set_dtype(ToWire(uop->dtype()));
    for (UOp* source : uop->src()) node->add_src(number[source]);
    WriteArg(*uop, *node);
  }
  return wire;
}

}  // namespace kiln::compiler
