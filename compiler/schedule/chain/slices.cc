#include "compiler/schedule/chain/slices.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/cpu/scan.h"
#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

bool IsNumbered(const UOp* range) { return range->op() == Op::RANGE && range->src(0)->IsConst(); }

}  // namespace

std::optional<PlainKernel> PlainKernelOf(Graph& graph, const UOp* call) {
  PlainKernel kernel;
  kernel.sink = call->src(0);
  const auto* arg = std::get_if<KernelArg>(&kernel.sink->arg());
  if (kernel.sink->op() != Op::SINK || kernel.sink->src().size() != 1 || (arg != nullptr && !arg->opts.empty()))
    return std::nullopt;
  const UOp* end = kernel.sink->src(0);
  if (end->op() != Op::END || end->src(0)->op() != Op::STORE) return std::nullopt;
  kernel.store = end->src(0);
  const UOp* place = kernel.store->src(0);
  if (kernel.store->src().size() != 2 || place->op() != Op::INDEX || place->src(0)->op() != Op::PARAM)
    return std::nullopt;
  const UOp* result = place->src(0);
  kernel.slot = result->arg_as<BufferArg>().slot;
  for (const UOp* uop : Toposort(kernel.sink)) {
    if (uop->op() == Op::RANGE && !IsNumbered(uop)) return std::nullopt;
    if (uop->IsVariable() || uop->op() == Op::BUFFER) return std::nullopt;
    if (uop->op() == Op::LOAD && (uop->src(0)->op() != Op::INDEX || uop->src(0)->src(0) == result)) return std::nullopt;
  }

  const LinearForm form = ToLinear(place->src(1));
  if (form.constant != 0 || form.terms.size() != end->src().size() - 1) return std::nullopt;
  for (const auto& [node, coefficient] : form.terms) {
    const auto loops = end->src().subspan(1);
    if (std::find(loops.begin(), loops.end(), node) == loops.end()) return std::nullopt;
    kernel.axes.push_back({node, node->src(0)->const_int(), coefficient});
  }
  std::sort(kernel.axes.begin(), kernel.axes.end(), [](const auto& a, const auto& b) { return a.stride > b.stride; });
  int64_t elements = 1;
  for (size_t i = kernel.axes.size(); i-- > 0; elements *= kernel.axes[i].size) {
    if (kernel.axes[i].stride != elements || kernel.axes[i].size < 2) return std::nullopt;
  }
  if (!IsConst(result->shape()) || NumElements(result->shape()) != elements) return std::nullopt;
  if (LoopWithoutIterations(graph, kernel.sink) != nullptr) return std::nullopt;
  return kernel;
}

std::optional<SliceReads> SliceReadsOf(const PlainKernel& reader, uint32_t slot, const PlainKernel& made) {
  SliceReads reads;
  for (const UOp* uop : Toposort(reader.sink)) {
    if (uop->op() != Op::LOAD) continue;
    const UOp* place = uop->src(0);
    if (place->src(0)->op() != Op::PARAM || place->src(0)->arg_as<BufferArg>().slot != slot) continue;
    const LinearForm form = ToLinear(place->src(1));
    if (form.constant != 0) return std::nullopt;
    std::vector<UOp*> walker(made.axes.size(), nullptr);
    for (const auto& [node, coefficient] : form.terms) {
      if (!IsNumbered(node)) return std::nullopt;
      const auto axis = std::find_if(made.axes.begin(), made.axes.end(),
                                     [coefficient](const auto& each) { return each.stride == coefficient; });
      if (axis == made.axes.end() || axis->size != node->src(0)->const_int()) return std::nullopt;
      const auto number = static_cast<size_t>(axis - made.axes.begin());
      walker[number] = node;
      if (const auto [found, is_new] = reads.walked.emplace(node, number); !is_new && found->second != number)
        return std::nullopt;
    }
    if (reads.loads++ == 0) reads.walker = walker;
    for (size_t i = 0; i < walker.size(); ++i) {
      if (walker[i] != reads.walker[i]) reads.walker[i] = nullptr;
    }
  }
  if (reads.loads == 0) return std::nullopt;
  return reads;
}

}  // namespace kiln::compiler
