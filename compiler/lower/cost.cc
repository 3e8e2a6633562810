#include "compiler/lower/cost.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/kernel/ranges.h"
#include "compiler/opt/cpu/scan.h"
#include "compiler/structure/op_time.h"
#include "compiler/structure/variables.h"

namespace kiln::compiler {
namespace {

// A thread should get at least this many simple operations, or bytes, at once.
constexpr double kWorthAThread = 64 * 1024;

// What a run may take that is to begin on a thread that answers calls, some kernels of its program each.
constexpr double kShortNs = 5'000;

// What goes on at the same time: items of a GPU's multiprocessor, and lanes of a loop that the compiler chose.
constexpr double kItemsOfAMultiprocessor = 128;
constexpr double kLanes = 8;

double Iterations(const RangeSet& ranges, const UOp* none) {
  double iterations = 1;
  for (const UOp* range : ranges) {
    if (range != none) iterations *= static_cast<double>(range->bounds().max + 1);
  }
  return iterations;
}

}  // namespace

v1::Cost CostOf(Graph& graph, UOp* kernel) {
  const UOp* none = LoopWithoutIterations(graph, kernel);
  double flops = 0, read = 0, written = 0, ns = 0;
  bool varies = false;
  const absl::flat_hash_map<UOp*, RangeSet> ranges = OpenRanges(kernel);
  OpTimes times;
  for (UOp* uop : Toposort(kernel)) {
    const RangeSet& open = ranges.at(uop);
    const double each = times.Next(uop).usual;
    if (uop->op() == Op::RANGE) varies |= !uop->src(0)->IsConst();
    if (uop->dtype() != kIndexType && uop->op() != Op::REDUCE) ns += each * Iterations(open, none);
    if (IsElementwise(uop->op()) && uop->dtype() != kIndexType) flops += Iterations(open, none);
    if (uop->op() == Op::REDUCE) {
      RangeSet inside = open;
      inside.insert(inside.end(), uop->src().begin() + 1, uop->src().end());
      flops += Iterations(inside, none);
      ns += each * Iterations(inside, none);
    }
    if (uop->op() == Op::LOAD || uop->op() == Op::STORE) {
      flops += Iterations(open, none);  // an access is work, too
      const UOp* buffer = uop->src(0)->src(0);
      if (buffer->op() != Op::PARAM) continue;  // a slice in local memory (schedule/chain/chain.h)
      const double size = ItemSize(buffer->dtype());
      const double bytes =
          std::min(Iterations(open, none) * size, static_cast<double>(buffer->shape()[0].max()) * size);
      (uop->op() == Op::LOAD ? read : written) += bytes;
    }
  }
  v1::Cost cost;
  cost.set_flops(static_cast<uint64_t>(std::min(flops, 1e18)));
  cost.set_bytes_read(static_cast<uint64_t>(std::min(read, 1e18)));
  cost.set_bytes_written(static_cast<uint64_t>(std::min(written, 1e18)));
  cost.set_run_ns(static_cast<uint64_t>(std::min(ns, 1e18)));
  cost.set_varies(varies && ns > kShortNs * kLanes);
  return cost;
}

v1::Cost CostOfProgram(const UOp* linear) {
  double work = 0, iterations = 1, ns = 0, longest_ns = 0;
  double known = 1;  // iterations, where a bound that is read counts as one
  bool varies = false;
  OpTimes times;
  std::vector<std::pair<double, double>> around;
  for (const UOp* uop : linear->src()) {
    const double each = times.Next(uop).usual;
    ns += each * known;
    longest_ns += each * iterations;
    varies |= uop->op() == Op::IF || (uop->op() == Op::RANGE && !uop->src(0)->IsConst());
    if (uop->op() == Op::RANGE || uop->op() == Op::IF) {
      around.emplace_back(iterations, known);
      if (uop->op() == Op::RANGE) {
        const double times_most = std::max(0.0, static_cast<double>(uop->src(0)->bounds().max));
        iterations *= times_most;
        if (IsKnownAtLaunch(uop->src(0))) known *= times_most;
      }
    } else if (uop->op() == Op::END || uop->op() == Op::ENDIF) {
      std::tie(iterations, known) = around.back();
      around.pop_back();
    }
    // What costs no instruction of its own.
    const bool free = uop->op() == Op::CONST || uop->op() == Op::STACK || uop->op() == Op::AFTER ||
                      uop->op() == Op::ENDIF || (uop->op() == Op::INDEX && Is(uop->src(0)->op(), kSource));
    if (free) continue;
    const Shape& shape = uop->op() == Op::STORE ? uop->src(0)->shape() : uop->shape();
    const bool storage = uop->op() == Op::BUFFER || uop->op() == Op::PARAM;
    work += iterations * (storage ? 1.0 : std::max(1.0, static_cast<double>(NumElements(shape))));
  }
  v1::Cost cost;
  cost.set_flops(static_cast<uint64_t>(std::min(work, 1e18)));
  cost.set_run_ns(static_cast<uint64_t>(std::min(ns, 1e18)));
  cost.set_varies(varies && longest_ns > kShortNs);
  return cost;
}

void ShareOut(const v1::Target& target, uint64_t parts, bool listed, v1::Cost& cost) {
  double at_once = std::max(1u, target.tuning().cores());
  const bool gpu = target.kind() == v1::Target::NVPTX || target.kind() == v1::Target::AMDGPU;
  if (gpu) at_once *= kItemsOfAMultiprocessor;
  at_once = std::min(at_once, static_cast<double>(std::max<uint64_t>(1, parts)));
  // What a client wrote has the lanes that it has.
  if (!gpu && !listed) at_once *= kLanes;
  cost.set_run_ns(static_cast<uint64_t>(static_cast<double>(cost.run_ns()) / at_once));
}

uint64_t IterationsOf(const UOp* linear) {
  for (const UOp* uop : linear->src()) {
    if (uop->op() == Op::RANGE && uop->arg_as<RangeArg>().type == AxisType::kThread)
      return static_cast<uint64_t>(std::max<__int128>(uop->src(0)->bounds().max, 0));
  }
  return 1;
}

uint64_t GrainOf(const v1::Cost& cost, uint64_t iterations) {
  const double work = static_cast<double>(cost.flops()) + static_cast<double>(cost.bytes_read()) +
                      static_cast<double>(cost.bytes_written());
  const double each = std::max(1.0, work / static_cast<double>(std::max<uint64_t>(iterations, 1)));
  return std::max<uint64_t>(1, static_cast<uint64_t>(kWorthAThread / each));
}

}  // namespace kiln::compiler
