#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/build.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/linear.h"
#include "compiler/rules/symbolic.h"
#include "compiler/schedule/chain/chain.h"

namespace kiln::compiler {
namespace {

class Builder {
 public:
  Builder(Graph& graph, const UOp* linear, const std::vector<ChainMember>& members, const RowCut& cut)
      : graph_(graph), linear_(linear), members_(members), cut_(cut), nests_(members.size()) {}

  UOp* Run() {
    call_.push_back(nullptr);
    OpenSlices();
    const PlainKernel& last = members_[0].kernel;
    ParamFor(last.store->src(0)->src(0), linear_->src(members_[0].call));  // slot 0, as everywhere
    // Makers come after their readers.
    for (size_t i = members_.size(); i-- > 0;) Build(i);
    std::vector<UOp*> src = {nests_[0].end};
    src.insert(src.end(), slices_.begin(), slices_.end());
    const auto* arg = std::get_if<KernelArg>(&last.sink->arg());
    KernelArg named;
    named.name = absl::StrCat("chain", members_.size(), "_", arg == nullptr ? "" : arg->name);
    UOp* sink = graph_.Make(Op::SINK, {graph_.Make(Op::END, src)}, named);
    call_[0] = GraphRewrite(sink, SymbolicRules(), graph_);
    return graph_.Make(Op::CALL, call_);
  }

 private:
  struct Nest {
    absl::flat_hash_map<UOp*, UOp*> ranges;  // in the whole result
    absl::flat_hash_map<UOp*, UOp*> places;  // in the slice
    UOp* end = nullptr;
    UOp* buffer = nullptr;  // local
  };

  UOp* Range(int64_t size, AxisType type) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{next_range_++, type});
  }

  void OpenSlices() {
    const std::vector<UOp*>& shared = members_[0].shared;
    for (size_t i = 0; i + 1 < shared.size(); ++i) {
      slices_.push_back(Range(shared[i]->src(0)->const_int(), AxisType::kLoop));
      at_.push_back(slices_.back());
    }
    const int64_t all = shared.back()->src(0)->const_int();
    if (cut_.blocks == 1) {
      at_.push_back(Idx(graph_, 0));
      return;
    }
    slices_.push_back(Range(cut_.blocks, AxisType::kLoop));
    UOp* first = Mul(graph_, slices_.back(), Idx(graph_, cut_.rows));
    at_.push_back(all % cut_.rows == 0 ? first : AtMost(graph_, first, all - cut_.rows));
  }

  // The PARAM for what `param` is in a body that `call` calls.
  UOp* ParamFor(const UOp* param, const UOp* call) {
    UOp* storage = call->src(1 + param->arg_as<BufferArg>().slot);
    UOp*& made = params_[storage];
    if (made == nullptr) {
      BufferArg arg = param->arg_as<BufferArg>();
      arg.slot = static_cast<uint32_t>(call_.size() - 1);
      made = graph_.Make(Op::PARAM, param->src(), arg);
      call_.push_back(storage);
    }
    return made;
  }

  // The strides of `maker`'s axes in a slice; 0 along those of which it has one place.
  std::vector<int64_t> SliceStrides(const ChainMember& maker, int64_t& elements) const {
    std::vector<int64_t> strides(maker.kernel.axes.size(), 0);
    elements = 1;
    for (size_t k = strides.size(); k-- > 0;) {
      const PlainKernel::Axis& axis = maker.kernel.axes[k];
      const auto shared = std::find(maker.shared.begin(), maker.shared.end(), axis.range);
      if (shared != maker.shared.end() && shared + 1 != maker.shared.end()) continue;
      strides[k] = elements;
      elements *= shared == maker.shared.end() ? axis.size : cut_.rows;
    }
    return strides;
  }

  void Build(size_t number) {
    const ChainMember& member = members_[number];
    const UOp* call = linear_->src(member.call);
    Nest& nest = nests_[number];
    const std::vector<UOp*> order = Toposort(member.kernel.sink);
    for (UOp* uop : order) {
      if (uop->op() != Op::RANGE) continue;
      const auto shared = std::find(member.shared.begin(), member.shared.end(), uop);
      if (shared == member.shared.end()) {
        nest.ranges[uop] = nest.places[uop] = Range(uop->src(0)->const_int(), uop->arg_as<RangeArg>().type);
      } else if (shared + 1 != member.shared.end()) {
        nest.ranges[uop] = at_[static_cast<size_t>(shared - member.shared.begin())];
      } else {
        nest.places[uop] = Range(cut_.rows, AxisType::kLoop);
        nest.ranges[uop] = Add(graph_, at_.back(), nest.places[uop]);
      }
    }
    absl::flat_hash_map<UOp*, UOp*> replaced = nest.ranges;
    for (UOp* uop : order) {
      if (uop->op() != Op::INDEX) continue;
      const size_t maker = MakerOf(number, uop->src(0)->arg_as<BufferArg>().slot);
      if (maker != 0) {
        replaced[uop] = Read(nest, members_[maker], nests_[maker], uop);
      } else if (number == 0 || uop != member.kernel.store->src(0)) {
        replaced[uop->src(0)] = ParamFor(uop->src(0), call);
      }
    }
    if (number > 0) replaced[member.kernel.store->src(0)] = Target(member, nest, number);
    std::vector<UOp*> src = {Substitute(member.kernel.store, replaced, graph_)};
    for (UOp* range : member.kernel.sink->src(0)->src().subspan(1)) {
      if (const auto place = nest.places.find(range); place != nest.places.end()) src.push_back(place->second);
    }
    nest.end = graph_.Make(Op::END, src);
  }

  // The member that makes what `reader` has in this slot; 0 if none does.
  size_t MakerOf(size_t reader, uint32_t slot) const {
    for (size_t i = 1; i < members_.size(); ++i) {
      if (members_[i].reader == reader && members_[i].read_slot == slot) return i;
    }
    return 0;
  }

  // Where `member` stores to: its slice.
  UOp* Target(const ChainMember& member, Nest& nest, size_t number) {
    int64_t elements = 1;
    const std::vector<int64_t> strides = SliceStrides(member, elements);
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(number);
    arg.dtype = member.kernel.store->src(0)->dtype();
    arg.addrspace = AddrSpace::kLocal;
    nest.buffer = graph_.Make(Op::BUFFER, {ShapeSource(graph_, {elements})}, arg);
    UOp* place = Idx(graph_, 0);
    for (size_t k = 0; k < strides.size(); ++k) {
      if (strides[k] == 0) continue;
      place = Add(graph_, place, Mul(graph_, nest.places.at(member.kernel.axes[k].range), Idx(graph_, strides[k])));
    }
    return graph_.Make(Op::INDEX, {nest.buffer, place});
  }

  // The place in the maker's slice that `index` is in all that it makes.
  UOp* Read(const Nest& nest, const ChainMember& maker, const Nest& made, const UOp* index) {
    int64_t elements = 1;
    const std::vector<int64_t> strides = SliceStrides(maker, elements);
    UOp* place = Idx(graph_, 0);
    for (const auto& [node, coefficient] : ToLinear(index->src(1)).terms) {
      const int64_t stride = strides[maker.reads.walked.at(node)];
      if (stride != 0) place = Add(graph_, place, Mul(graph_, nest.places.at(node), Idx(graph_, stride)));
    }
    return graph_.Make(Op::INDEX, {graph_.Make(Op::AFTER, {made.buffer, made.end}), place});
  }

  Graph& graph_;
  const UOp* linear_;
  const std::vector<ChainMember>& members_;
  const RowCut cut_;
  std::vector<Nest> nests_;
  std::vector<UOp*> slices_;  // the RANGEs around all
  std::vector<UOp*> at_;      // where a slice begins, along each shared axis
  absl::flat_hash_map<UOp*, UOp*> params_;
  std::vector<UOp*> call_;
  int64_t next_range_ = 0;
};

}  // namespace

UOp* MakeChainCall(Graph& graph, const UOp* linear, const std::vector<ChainMember>& members, const RowCut& cut) {
  return Builder(graph, linear, members, cut).Run();
}

}  // namespace kiln::compiler
