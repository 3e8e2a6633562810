#include "compiler/lower/lower_chain.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

// AFTER(BUFFER, nest), the BUFFER local.
bool IsMade(const UOp* uop) {
  return uop->op() == Op::AFTER && uop->src(0)->op() == Op::BUFFER && uop->src(0)->addrspace() == AddrSpace::kLocal;
}

// What one core has to itself, beside the slices.
v1::Target OneCore(const v1::Target& target, int64_t local_bytes) {
  v1::Target core = target;
  v1::Target::Tuning& tuning = *core.mutable_tuning();
  const int64_t l2 = tuning.l2_bytes() ? static_cast<int64_t>(tuning.l2_bytes()) : 1 << 20;
  // Of the cache a copy takes three quarters at most (opt/cpu/matmul.cc).
  const int64_t left = std::min(l2 - local_bytes, (kMaxLocalBytes - local_bytes) * 4 / 3);
  tuning.set_l2_bytes(static_cast<uint64_t>(std::max<int64_t>(left, 1)));
  tuning.set_cores(1);
  return core;
}

class Chain {
 public:
  Chain(Graph& graph, UOp* kernel) : graph_(graph), kernel_(kernel), local_bytes_(LocalBytes(kernel)) {
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

  size_t size() const { return nests_.size(); }
  int64_t local_bytes() const { return local_bytes_; }

  // One nest as a kernel: what others make, and it makes, are PARAMs, and which slice it is are variables.
  UOp* Kernel(size_t number) const {
    absl::flat_hash_map<UOp*, UOp*> replaced;
    for (size_t i = 0; i < slices_.size(); ++i) replaced[slices_[i]] = variables_[i];
    for (const Nest& nest : nests_) {
      if (nest.buffer == nullptr) continue;
      replaced[nest.made] = replaced[nest.buffer] = nest.storage;
    }
    return graph_.Make(Op::SINK, {Substitute(nests_[number].body, replaced, graph_)}, kernel_->arg());
  }

  void SetLowered(size_t number, UOp* sink) {
    nests_[number].lowered = sink->src(0);
    local_bytes_ += LocalBytes(sink);
  }

  // All of them, in one loop over the slices.
  UOp* Whole() const {
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
        // Accumulators, too, are set anew in every iteration; and one thread does all of it.
        if (uop->op() == Op::BUFFER) replaced[uop] = graph_.Make(Op::AFTER, {uop, iteration});
        if (uop->op() == Op::RANGE && uop->arg_as<RangeArg>().type == AxisType::kThread)
          replaced[uop] = graph_.Make(Op::RANGE, uop->src(), RangeArg{uop->arg_as<RangeArg>().id, AxisType::kLoop});
      }
      if (nest.buffer != nullptr) replaced[nest.storage] = graph_.Make(Op::AFTER, {nest.buffer, iteration});
      last = Substitute(nest.lowered, replaced, graph_);
      if (nest.buffer != nullptr) replaced[nest.storage] = graph_.Make(Op::AFTER, {nest.buffer, last});
    }
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, {last, iteration})}, kernel_->arg());
  }

 private:
  struct Nest {
    UOp* body;    // END(STORE, loops...)
    UOp* buffer;  // what it fills, with what is AFTER that; null for the last
    UOp* made;
    UOp* storage;  // a PARAM in the place of both
    UOp* lowered;
  };

  UOp* Storage(const UOp* buffer) {
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(graph_.NextId());
    arg.dtype = buffer->dtype();
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {NumElements(buffer->shape())})}, arg);
  }

  UOp* Variable(const UOp* range) {
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(graph_.NextId());
    arg.dtype = kIndexType;
    arg.addrspace = AddrSpace::kAlu;
    arg.name = "slice";
    arg.max = range->src(0)->const_int() - 1;
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {})}, arg);
  }

  Graph& graph_;
  UOp* kernel_;
  std::vector<Nest> nests_;  // in the order in which they run
  std::vector<UOp*> slices_, variables_;
  int64_t local_bytes_;
};

}  // namespace

bool IsChain(const UOp* kernel) {
  if (kernel->op() != Op::SINK || kernel->src().size() != 1 || kernel->src(0)->op() != Op::END) return false;
  return kernel->src(0)->src(0)->op() == Op::END;
}

absl::StatusOr<LoweredKernel> LowerChain(Graph& graph, Pipeline& pipeline, UOp* kernel, uint32_t slots,
                                         const v1::Target& target, const CodeGenerator& generator,
                                         const Options& options, const std::string* schedule) {
  Chain chain(graph, kernel);
  std::vector<std::string> given, chosen;
  if (schedule != nullptr) given = absl::StrSplit(*schedule, " | ");
  LoweredKernel whole;
  const std::string name = pipeline.kernel();
  for (size_t i = 0; i < chain.size(); ++i) {
    pipeline.set_kernel(absl::StrCat(name, ".", i));
    const auto lower = [&](const std::string* mine) {
      return LowerToAccumulators(graph, pipeline, chain.Kernel(i), slots + static_cast<uint32_t>(whole.hoisted.size()),
                                 OneCore(target, chain.local_bytes()), generator, options, mine);
    };
    KILN_ASSIGN_OR_RETURN(LoweredKernel nest, lower(given.size() == chain.size() ? &given[i] : nullptr));
    if (chain.local_bytes() + LocalBytes(nest.linear) > kMaxLocalBytes) {
      const std::string plain;  // copies nothing
      KILN_ASSIGN_OR_RETURN(nest, lower(&plain));
    }
    chain.SetLowered(i, nest.linear);
    chosen.push_back(std::move(nest.schedule));
    whole.gates += nest.gates;
    whole.hoisted.insert(whole.hoisted.end(), nest.hoisted.begin(), nest.hoisted.end());
  }
  pipeline.set_kernel(name);
  whole.schedule = absl::StrJoin(chosen, " | ");
  KILN_ASSIGN_OR_RETURN(whole.linear,
                        pipeline.Run("chain nests", kernel, kAccumulatingSpec, [&](UOp*) { return chain.Whole(); }));
  return whole;
}

}  // namespace kiln::compiler
