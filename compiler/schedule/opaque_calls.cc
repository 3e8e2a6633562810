#include "compiler/schedule/opaque_calls.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/polynomial.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/schedule/kernel_entry.h"
#include "compiler/spec/program_spec.h"
#include "compiler/structure/kernel_call.h"
#include "compiler/structure/variables.h"

namespace kiln::compiler {
namespace {

// The bodies of all calls together are at most so many times the nodes that a graph may have.
constexpr uint64_t kBodiesPerGraph = 16;

absl::Status GraphHas(uint64_t used, absl::string_view limit, uint64_t limit_value) {
  return TooLarge(limit, limit_value, used,
                  absl::StrCat("the graph has more than ", limit_value, " ", limit, "; this server takes no more"));
}

class Hider {
 public:
  Hider(Graph& graph, const Limits& limits, KernelBodies& bodies) : graph_(graph), limits_(limits), bodies_(bodies) {}

  absl::StatusOr<UOp*> Run(UOp* root) {
    for (UOp* uop : ToposortScope(root)) {
      std::vector<UOp*> src(uop->src().begin(), uop->src().end());
      for (size_t i = uop->op() == Op::CALL ? 1 : 0; i < src.size(); ++i) src[i] = done_[src[i]];
      UOp* made = graph_.Make(uop->op(), src, uop->arg());
      if (uop->op() == Op::CALL) {
        const absl::StatusOr<UOp*> hidden = Hide(made);
        if (!hidden.ok()) return graph_.Locate(hidden.status(), uop);
        made = *hidden;
      }
      graph_.CopyOrigin(uop, made);
      done_[uop] = made;
    }
    return done_[root];
  }

 private:
  // A call's arguments, and behind them the variables that it takes besides.
  struct Operands {
    std::vector<UOp*> uops;
    std::string kinds;            // opaque_calls.h
    std::vector<uint32_t> place;  // of each in the kernel's own list, which has none that it does not name
    size_t given = 0;             // how many are arguments

    // Where `variable` was added; their number if it was not.
    size_t Added(const UOp* variable) const {
      return static_cast<size_t>(std::find(uops.begin() + static_cast<ptrdiff_t>(given), uops.end(), variable) -
                                 uops.begin());
    }
  };

  // What is done for a call takes time by the size of its body, and many may have one body.
  absl::Status Admit(UOp* body) {
    if (++calls_ > limits_.max_kernels) return GraphHas(calls_, "CALLs of kernels", limits_.max_kernels);
    const auto [known, is_new] = nodes_of_.emplace(body, 0);
    if (is_new) {
      known->second = Toposort(body).size();
      if (body->op() == Op::LINEAR) KILN_RETURN_IF_ERROR(VerifyProgram(body, limits_, &graph_).status());
    }
    nodes_ += known->second;
    const uint64_t limit_value = uint64_t{limits_.max_nodes} * kBodiesPerGraph;
    return nodes_ <= limit_value ? absl::OkStatus()
                                 : GraphHas(nodes_, "nodes in the bodies of its CALLs of kernels", limit_value);
  }

  absl::StatusOr<UOp*> Hide(UOp* call) {
    UOp* body = call->src(0);
    KILN_RETURN_IF_ERROR(Admit(body));
    KILN_ASSIGN_OR_RETURN(const KernelCall read, ReadKernelCall(call));
    Operands operands;
    operands.given = call->src().size() - 1;
    operands.uops.assign(call->src().begin() + 1, call->src().end());
    operands.kinds.assign(operands.given, '-');
    for (const KernelCall::Argument& argument : read.arguments) {
      const uint32_t slot = argument.param->arg_as<BufferArg>().slot;
      if (!argument.param->IsVariable()) {
        operands.kinds[slot] = argument.written ? 'w' : 'r';
      } else if (slot < operands.given && argument.argument->IsVariable()) {
        operands.kinds[slot] = 'v';
      } else {
        KILN_RETURN_IF_ERROR(AddVariables(argument.argument, operands));
      }
    }
    uint32_t named = 0;
    for (char kind : operands.kinds) operands.place.push_back(kind == '-' ? 0 : named++);

    absl::flat_hash_map<UOp*, UOp*> bound;
    for (const KernelCall::Argument& argument : read.arguments) {
      const uint32_t slot = argument.param->arg_as<BufferArg>().slot;
      if (slot < operands.given && operands.kinds[slot] != '-') {
        bound[argument.param] = Numbered(argument.param, operands.place[slot]);
      } else {
        KILN_ASSIGN_OR_RETURN(bound[argument.param], Value(argument, operands, body));
      }
    }
    KILN_ASSIGN_OR_RETURN(UOp * made, Bound(body, bound));
    UOp*& stand_in = stand_ins_[made];
    if (stand_in == nullptr) {
      KILN_ASSIGN_OR_RETURN(UOp * entered, BodyOf(graph_, made));
      stand_in = graph_.Make(Op::SINK, {}, KernelArg{absl::StrCat("call ", stand_ins_.size() - 1), {}, false, {}});
      bodies_[stand_in] = entered;
    }
    std::vector<UOp*> src = {stand_in};
    src.insert(src.end(), operands.uops.begin(), operands.uops.end());
    return graph_.TryMake(Op::CALL, src, TextArg{operands.kinds});
  }

  // `body` with what its PARAMs, BUFFERs and variables are for this call.
  absl::StatusOr<UOp*> Bound(UOp* body, absl::flat_hash_map<UOp*, UOp*> done) {
    for (UOp* uop : Toposort(body)) {
      if (done.contains(uop)) continue;
      std::vector<UOp*> src;
      for (UOp* source : uop->src()) src.push_back(done[source]);
      const absl::Status folded = FoldSizes(graph_, uop->op(), src);
      const absl::StatusOr<UOp*> made = folded.ok() ? graph_.TryMake(uop->op(), src, uop->arg()) : folded;
      if (!made.ok()) return graph_.Locate(made.status(), uop);
      graph_.InheritOrigin(*made, uop);
      done[uop] = *made;
    }
    return done[body];
  }

  // The program's variables in `value`, as further operands.
  absl::Status AddVariables(UOp* value, Operands& operands) {
    if (!IsKnownAtLaunch(value)) {
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("CALL gives a variable of its body a value that is computed (",
                                                        Name(value->op()), "); it is made of CONSTs and variables"));
    }
    for (UOp* uop : Toposort(value)) {
      if (!uop->IsVariable() || operands.Added(uop) < operands.uops.size()) continue;
      operands.uops.push_back(uop);
      operands.kinds.push_back('v');
    }
    return absl::OkStatus();
  }

  UOp* Numbered(const UOp* param, uint32_t place) {
    const BufferArg& given = param->arg_as<BufferArg>();
    BufferArg arg;
    arg.slot = place;
    arg.dtype = given.dtype;
    arg.addrspace = given.addrspace;
    arg.min = given.min;
    arg.max = given.max;
    return graph_.Make(Op::PARAM, {param->src(0)}, arg);
  }

  // What stands for a variable of `body` that is no operand itself.
  absl::StatusOr<UOp*> Value(const KernelCall::Argument& variable, const Operands& operands, const UOp* body) {
    UOp* value = variable.argument;
    const DType dtype = variable.param->dtype();
    if (const std::optional<int64_t> number = PolynomialOf(graph_, value).constant(); number.has_value())
      return ConstInt(graph_, dtype, *number);
    absl::flat_hash_map<UOp*, UOp*> variables;
    for (UOp* uop : Toposort(value)) {
      if (uop->IsVariable()) variables[uop] = Numbered(uop, operands.place[operands.Added(uop)]);
    }
    if (value->IsVariable()) return variables.at(value);  // the program's own
    if (body->op() == Op::LINEAR) {
      return MakeError(v1::UNSUPPORTED_OP,
                       "CALL gives a variable of a LINEAR program an expression; it takes a CONST or a variable");
    }
    return Cast(graph_, Substitute(value, variables, graph_), dtype);
  }

  Graph& graph_;
  const Limits& limits_;
  KernelBodies& bodies_;
  uint64_t calls_ = 0;
  uint64_t nodes_ = 0;  // of bodies, once for every call
  absl::flat_hash_map<UOp*, size_t> nodes_of_;
  absl::flat_hash_map<UOp*, UOp*> done_;
  absl::flat_hash_map<const UOp*, UOp*> stand_ins_;  // by body
};

}  // namespace

absl::StatusOr<UOp*> HideBodies(Graph& graph, UOp* root, const Limits& limits, KernelBodies& bodies) {
  const std::vector<UOp*> order = ToposortScope(root);
  if (std::none_of(order.begin(), order.end(), [](const UOp* uop) { return uop->op() == Op::CALL; })) return root;
  return Hider(graph, limits, bodies).Run(root);
}

char ArgumentKind(const UOp* call, size_t i) { return call->arg_as<TextArg>().text[i]; }

std::vector<UOp*> StorageWrittenBy(const UOp* call) {
  std::vector<UOp*> written;
  for (size_t i = 0; i + 1 < call->src().size(); ++i) {
    if (ArgumentKind(call, i) == 'w') written.push_back(WholeStorage(call->src(i + 1)));
  }
  return written;
}

UOp* RealiseArguments(Graph& graph, UOp* root) {
  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : Toposort(root)) {
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(done[source]);
    if (uop->op() == Op::CALL) {
      const std::vector<UOp*> written = StorageWrittenBy(uop);
      for (size_t i = 0; i + 1 < src.size(); ++i) {
        if (ArgumentKind(uop, i) != 'r' || src[i + 1]->op() == Op::LOAD) continue;
        UOp* storage = WholeStorage(src[i + 1]);
        const bool as_it_is = storage != nullptr && std::find(written.begin(), written.end(), storage) == written.end();
        if (!as_it_is) src[i + 1] = graph.Make(Op::LOAD, {src[i + 1]});
      }
    }
    done[uop] = graph.Make(uop->op(), src, uop->arg());
    graph.CopyOrigin(uop, done[uop]);
  }
  return done[root];
}

}  // namespace kiln::compiler
