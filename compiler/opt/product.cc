#include "compiler/opt/product.h"

#include <algorithm>

#include "compiler/kernel/dots.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/apply.h"
#include "compiler/opt/hoist.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/opt/walked_axes.h"

namespace kiln::compiler {
namespace {

// The stride along two loops as one, `inner` of n iterations.
std::optional<int64_t> FusedStride(std::optional<int64_t> outer, std::optional<int64_t> inner, int64_t n) {
  if (!outer.has_value() || !inner.has_value() || *outer != n * *inner) return std::nullopt;
  return inner;
}

// Those along two loops as one; none if the two do not walk one axis, one where the other ends.
std::vector<Walk> FusedWalks(absl::Span<const Walk> walks, size_t outer, int64_t n) {
  std::vector<Walk> fused;
  for (const Walk& walk : walks) {
    int64_t outer_step = 0, inner_step = 0;
    Walk& parts = fused.emplace_back();
    for (const auto& [axis, step] : walk) {
      if (axis == outer) outer_step = step;
      if (axis == outer + 1) inner_step = step;
      if (axis != outer) parts.emplace_back(axis > outer ? axis - 1 : axis, step);
    }
    if (outer_step != n * inner_step) return {};
  }
  return fused;
}

int64_t LikelySize(const Bounds& size) {
  return size.max < kLikelySize ? std::max<int64_t>(static_cast<int64_t>(size.max), 1) : kLikelySize;
}

}  // namespace

int64_t Product::ReducedSize() const {
  int64_t iterations = 1;
  for (size_t axis = outputs; axis < sizes.size(); ++axis) iterations *= Size(axis);
  return iterations;
}

double Product::Batches(size_t row, size_t column) const {
  double batches = 1;
  for (size_t axis = 0; axis < outputs; ++axis) {
    if (axis != row && axis != column) batches *= static_cast<double>(Size(axis));
  }
  return batches;
}

bool Product::AnyVaries() const { return std::find(varies.begin(), varies.end(), true) != varies.end(); }

bool Product::Walks(size_t operand, size_t axis, size_t other) const {
  const Operand& o = operands[operand];
  return o.depends[axis] && !o.depends[other];
}

bool Product::ReducesNeighbours(size_t operand) const {
  const auto& strides = operands[operand].strides;
  int64_t run = 1;  // neighbours that are reduced one after the other
  for (size_t axis = sizes.size(); axis-- > outputs;) {
    if (strides[axis] == run) run *= sizes[axis];
  }
  return run >= kMinTransposed;
}

std::optional<Product> ProductIn(UOp* sink, const v1::Target& target) {
  const std::vector<UOp*> operands = OperandsOf(sink);
  if (operands.size() != 2 || sink->src(0)->op() != Op::END) return std::nullopt;
  UOp* store = sink->src(0)->src(0);
  if (store->op() != Op::STORE || store->src(0)->op() != Op::INDEX) return std::nullopt;
  Product product;
  const std::vector<UOp*> axes = AxesOf(sink);
  product.outputs = OutputRanges(sink).size();
  if (!CountsApart(store->src(0)->src(1), OutputRanges(sink))) return std::nullopt;
  for (UOp* axis : axes) {
    const UOp* size = axis->src(0);
    // Rows of a tile beyond the end read the last one again, so that there must be one.
    if (!size->IsConst() && (product.sizes.size() >= product.outputs || size->bounds().min < 1)) return std::nullopt;
    product.varies.push_back(!size->IsConst());
    if (!size->IsConst()) product.most_varying *= static_cast<double>(size->bounds().max);
    product.sizes.push_back(size->IsConst() ? size->const_int() : LikelySize(size->bounds()));
    product.store.push_back(StrideIn(store->src(0)->src(1), axis));
  }
  for (UOp* root : operands) {
    const RangeSet open = OpenRanges(root).at(root);
    std::vector<UOp*> loads;
    for (UOp* uop : Toposort(root)) {
      if (uop->op() == Op::LOAD) loads.push_back(uop);
    }
    Operand operand;
    for (UOp* axis : axes) {
      operand.depends.push_back(std::find(open.begin(), open.end(), axis) != open.end());
      operand.strides.push_back(loads.size() == 1 ? StrideIn(loads[0]->src(0)->src(1), axis) : std::nullopt);
    }
    operand.gated = loads.size() != 1 || loads[0] != root || loads[0]->src().size() > 1;
    operand.constant = OfConstants(root);
    operand.terms_as_they_are =
        loads.size() == 1 && loads[0]->src().size() == 1 && root->op() == Op::CAST && root->src(0) == loads[0];
    std::vector<UOp*> walked;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (operand.depends[i] && !product.varies[i]) walked.push_back(axes[i]);
    }
    for (const WalkedAxis& axis : WalkedAxes(root, walked)) {
      Walk& walk = operand.walks.emplace_back();
      operand.last_stride = axis.stride;
      for (const WalkedAxis::Part& part : axis.parts)
        walk.emplace_back(std::find(axes.begin(), axes.end(), part.range) - axes.begin(), part.step);
    }
    for (const UOp* load : loads) {
      const Dim& size = load->src(0)->src(0)->shape()[0];
      if (size.IsConst()) operand.bytes += static_cast<double>(int64_t{size} * ItemSize(load->dtype()));
    }
    product.operands.push_back(std::move(operand));
  }
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::REDUCE) continue;
    product.item = ItemSize(uop->dtype());
    const std::optional<DotFactors> factors = DotFactorsOf(uop->src(0), DotUnitsOf(target));
    const bool dots =
        uop->arg_as<ReduceArg>().op == Op::ADD && factors.has_value() &&
        std::all_of(operands.begin(), operands.end(), [&](const UOp* operand) {
          return operand->op() == Op::CAST && (operand->src(0) == factors->a || operand->src(0) == factors->b);
        });
    if (!dots) continue;
    const DotUnits units = DotUnitsOf(target);
    product.terms = factors->terms();
    product.dots = units.TakesDotsOf(factors->a->dtype());
    product.tiles = units.TakesTilesOf(factors->a->dtype());
  }
  return product;
}

std::optional<Product> Fused(Product product, size_t axis) {
  const size_t inner = axis + 1;
  if (product.varies[axis] || product.varies[inner]) return std::nullopt;
  const int64_t n = product.sizes[inner];
  product.store[axis] = FusedStride(product.store[axis], product.store[inner], n);
  if (product.store[axis] != 1) return std::nullopt;
  const auto at = static_cast<int64_t>(inner);
  for (Operand& operand : product.operands) {
    if (operand.depends[axis] != operand.depends[inner]) return std::nullopt;
    // A gate compares rows and columns: in lanes of both together that takes a quotient for each.
    if (operand.gated && operand.depends[axis]) return std::nullopt;
    operand.strides[axis] = FusedStride(operand.strides[axis], operand.strides[inner], n);
    operand.depends.erase(operand.depends.begin() + at);
    operand.strides.erase(operand.strides.begin() + at);
    operand.walks = FusedWalks(operand.walks, axis, n);
  }
  product.sizes[axis] *= n;
  product.sizes.erase(product.sizes.begin() + at);
  product.store.erase(product.store.begin() + at);
  product.varies.erase(product.varies.begin() + at);
  --product.outputs;
  return product;
}

}  // namespace kiln::compiler
