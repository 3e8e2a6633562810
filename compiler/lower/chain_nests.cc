#include "compiler/lower/chain_nests.h"

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

// AFTER(BUFFER, nest), the BUFFER local.
bool IsMade(const UOp* uop) {
  return uop->op() == Op::AFTER && uop->src(0)->op() == Op::BUFFER && uop->src(0)->addrspace() == AddrSpace::kLocal;
}

}  // namespace

bool IsChain(const UOp* kernel) {
  if (kernel->op() != Op::SINK || kernel->src().size() != 1 || kernel->src(0)->op() != Op::END) return false;
  return kernel->src(0)->src(0)->op() == Op::END;
}

ChainNests::ChainNests(Graph& graph, UOp* kernel) : graph_(graph), kernel_(kernel), local_bytes_(LocalBytes(kernel)) {
  for (UOp* uop : Toposort(kernel)) {
    if (!IsMade(uop)) continue;
    nests_.push_back({uop->src(1), uop->src(0), uop, Storage(uop->src(0)), nullptr});
  }
  UOp* all = kernel->src(0);
  nests_.push_back({all->src(0), nullptr, nullptr, nullptr, nullptr});
  for (UOp* range : all->src().subspan(1)) {
    slices_.push_back(range);
    variables_.push_back(Variable(range));
  }
}

UOp* ChainNests::Kernel(size_t number) const {
  absl::flat_hash_map<UOp*, UOp*> replaced;
  for (size_t i = 0; i < slices_.size(); ++i) replaced[slices_[i]] = variables_[i];
  for (const Nest& nest : nests_) {
    if (nest.buffer == nullptr) continue;
    replaced[nest.made] = replaced[nest.buffer] = nest.storage;
  }
  return graph_.Make(Op::SINK, {Substitute(nests_[number].body, replaced, graph_)}, kernel_->arg());
}

void ChainNests::SetLowered(size_t number, UOp* sink) {
  nests_[number].lowered = sink->src(0);
  local_bytes_ += LocalBytes(sink);
}

UOp* ChainNests::Whole() const {
  int64_t iterations = 1;
  for (const UOp* range : slices_) iterations *= range->src(0)->const_int();
  UOp* iteration = graph_.Make(Op::RANGE, {Idx(graph_, iterations)}, RangeArg{graph_.NextId(), AxisType::kThread});
  absl::flat_hash_map<UOp*, UOp*> replaced;
  for (size_t i = 0, n = slices_.size(); i < n; ++i) {
    UOp* size = slices_[i]->src(0);
    iterations /= size->const_int();
    UOp* at = iterations == 1 ? iteration : graph_.Make(Op::FLOORDIV, {iteration, Idx(graph_, iterations)});
    replaced[variables_[i]] = i == 0 ? at : graph_.Make(Op::FLOORMOD, {at, size});
  }
  UOp* last = nullptr;
  for (const Nest& nest : nests_) {
    for (UOp* uop : Toposort(nest.lowered)) {
      // Accumulators, too, are set anew in every iteration, and not before the last nest is done: those of a matrix
      // unit are in the same registers. And one thread does all of it.
      if (uop->op() == Op::BUFFER) {
        std::vector<UOp*> after = {uop, iteration};
        if (last != nullptr) after.push_back(last);
        replaced[uop] = graph_.Make(Op::AFTER, after);
      }
      if (uop->op() == Op::RANGE && uop->arg_as<RangeArg>().type == AxisType::kThread)
        replaced[uop] = graph_.Make(Op::RANGE, uop->src(), RangeArg{uop->arg_as<RangeArg>().id, AxisType::kLoop});
    }
    if (nest.buffer != nullptr) replaced[nest.storage] = graph_.Make(Op::AFTER, {nest.buffer, iteration});
    last = Substitute(nest.lowered, replaced, graph_);
    if (nest.buffer != nullptr) replaced[nest.storage] = graph_.Make(Op::AFTER, {nest.buffer, last});
  }
  return graph_.Make(Op::SINK, {graph_.Make(Op::END, {last, iteration})}, kernel_->arg());
}

UOp* ChainNests::Storage(const UOp* buffer) {
  BufferArg arg;
  arg.slot = static_cast<uint32_t>(graph_.NextId());
  arg.dtype = buffer->dtype();
  arg.name = "slice";
  return graph_.Make(Op::PARAM, {ShapeSource(graph_, {NumElements(buffer->shape())})}, arg);
}

UOp* ChainNests::Variable(const UOp* range) {
  BufferArg arg;
  arg.slot = static_cast<uint32_t>(graph_.NextId());
  arg.dtype = kIndexType;
  arg.addrspace = AddrSpace::kAlu;
  arg.name = "slice";
  arg.max = range->src(0)->const_int() - 1;
  return graph_.Make(Op::PARAM, {ShapeSource(graph_, {})}, arg);
}

}  // namespace kiln::compiler
