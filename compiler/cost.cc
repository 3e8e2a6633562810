#include "compiler/cost.h"

#include <algorithm>

#include "compiler/kernel/ranges.h"

namespace kiln::compiler {
namespace {

// A thread should get at least this many simple operations, or bytes, at once.
constexpr double kWorthAThread = 64 * 1024;

double Turns(const RangeSet& ranges) {
  double turns = 1;
  for (const UOp* range : ranges) turns *= static_cast<double>(range->src(0)->const_int());
  return turns;
}

}  // namespace

v1::Cost CostOf(UOp* kernel) {
  double flops = 0, read = 0, written = 0;
  for (const auto& [uop, open] : OpenRanges(kernel)) {
    if (IsElementwise(uop->op()) && uop->dtype() != kIndexType) flops += Turns(open);
    if (uop->op() == Op::REDUCE) {
      RangeSet inside = open;
      inside.insert(inside.end(), uop->src().begin() + 1, uop->src().end());
      flops += Turns(inside);
    }
    if (uop->op() == Op::LOAD || uop->op() == Op::STORE) {
      flops += Turns(open);  // an access is work, too
      const UOp* buffer = uop->src(0)->src(0);
      const double size = ItemSize(buffer->dtype());
      const double bytes = std::min(Turns(open) * size, static_cast<double>(buffer->shape()[0]) * size);
      (uop->op() == Op::LOAD ? read : written) += bytes;
    }
  }
  v1::Cost cost;
  cost.set_flops(static_cast<uint64_t>(std::min(flops, 1e18)));
  cost.set_bytes_read(static_cast<uint64_t>(std::min(read, 1e18)));
  cost.set_bytes_written(static_cast<uint64_t>(std::min(written, 1e18)));
  return cost;
}

uint64_t GrainOf(const v1::Cost& cost, uint64_t iterations) {
  const double work = static_cast<double>(cost.flops()) + static_cast<double>(cost.bytes_read()) +
                      static_cast<double>(cost.bytes_written());
  const double each = std::max(1.0, work / static_cast<double>(std::max<uint64_t>(iterations, 1)));
  return std::max<uint64_t>(1, static_cast<uint64_t>(kWorthAThread / each));
}

}  // namespace kiln::compiler
