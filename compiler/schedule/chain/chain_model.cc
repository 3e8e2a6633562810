#include "compiler/schedule/chain/chain_model.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "compiler/kernel/ranges.h"
#include "compiler/kernel/work.h"
#include "compiler/opt/cpu/machine.h"
#include "compiler/opt/local_buffer.h"

namespace kiln::compiler {
namespace {

// -- The machine, in cycles.
constexpr double kFarBytesPerCycle = 5;  // of memory
constexpr double kCopyCycles = 5;        // of one vector that is copied for each slice anew
constexpr double kVectorsPerCycle = 2;
constexpr int64_t kTileRows = 8;    // fewer are no tile
constexpr int64_t kMaxSlices = 64;  // of one cut, beyond those that it must have
constexpr double kCores = 16;       // what slices are shared among: a number, so that no value depends on the machine's
constexpr double kMinWon = 0.02;    // of the work, to be won

using Members = std::vector<ChainMember>;

int64_t SizeOf(const UOp* range) { return range->src(0)->const_int(); }

bool Contains(const std::vector<UOp*>& uops, const UOp* uop) {
  return std::find(uops.begin(), uops.end(), uop) != uops.end();
}

double IterationsOf(const RangeSet& ranges) {
  double iterations = 1;
  for (const UOp* range : ranges) iterations *= static_cast<double>(SizeOf(range));
  return iterations;
}

// Whether each element is stored once, from registers: two threads may then both store it, the same value. What
// is reduced over a row alone may be kept in the row until it is known (kernel/keep_row.h).
bool StoresOnce(const PlainKernel& kernel) {
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(kernel.sink);
  for (const auto& [uop, ranges] : open) {
    if (uop->op() != Op::REDUCE) continue;
    for (const PlainKernel::Axis& axis : kernel.axes) {
      if (std::find(ranges.begin(), ranges.end(), axis.range) == ranges.end()) return false;
    }
  }
  return true;
}

// Whether `load`, of `reader`, is of what another member makes.
bool IsOfSlice(const UOp* load, const ChainMember& reader, const Members& members) {
  const uint32_t slot = load->src(0)->src(0)->arg_as<BufferArg>().slot;
  return std::any_of(members.begin() + 1, members.end(), [&](const ChainMember& maker) {
    return &members[maker.reader] == &reader && maker.read_slot == slot;
  });
}

// What a slice reads of storage that is no slice's: the same for all rows.
double BytesAround(const ChainMember& member, const Members& members) {
  absl::flat_hash_map<const UOp*, double> bytes;
  for (UOp* uop : Toposort(member.kernel.sink)) {
    if (uop->op() != Op::LOAD || IsOfSlice(uop, member, members)) continue;
    const UOp* param = uop->src(0)->src(0);
    double elements = 1;
    bool rows = false;
    for (const UOp* part : Toposort(uop->src(0)->src(1))) {
      if (part->op() != Op::RANGE) continue;
      rows = rows || part == member.shared.back();
      if (!Contains(member.shared, part)) elements *= static_cast<double>(SizeOf(part));
    }
    if (rows) continue;
    elements = std::min(elements, static_cast<double>(param->shape()[0].max()));
    bytes[param] = std::max(bytes[param], elements * ItemSize(uop->dtype()));
  }
  double sum = 0;
  for (const auto& [param, each] : bytes) sum += each;
  return sum;
}

// What all slices read of rows that others of them have read: operands of a reduction that do not depend on all that
// says which slice it is.
double BytesRepeated(const ChainMember& member, const Members& members) {
  double sum = 0;
  for (UOp* uop : Toposort(member.kernel.sink)) {
    if (uop->op() != Op::LOAD || IsOfSlice(uop, member, members)) continue;
    const std::vector<UOp*> place = Toposort(uop->src(0)->src(1));
    if (!Contains(place, member.shared.back())) continue;
    double bytes = ItemSize(uop->dtype()), times = 1;
    bool reduces = false;
    for (const UOp* part : place) {
      if (part->op() != Op::RANGE) continue;
      bytes *= static_cast<double>(SizeOf(part));
      reduces = reduces || part->arg_as<RangeArg>().type == AxisType::kReduce;
    }
    for (const UOp* range : member.shared) {
      if (!Contains(place, range)) times *= static_cast<double>(SizeOf(range));
    }
    if (reduces) sum += bytes * (times - 1);
  }
  return sum;
}

}  // namespace

ChainModel::ChainModel(const v1::Target& target) {
  const auto& tuning = target.tuning();
  vector_bytes_ = tuning.vector_bytes() ? tuning.vector_bytes() : 16;
  l2_bytes_ = static_cast<double>(tuning.l2_bytes() ? tuning.l2_bytes() : 1 << 20);
  l3_bytes_ = std::max(l2_bytes_, static_cast<double>(tuning.l3_bytes()));
  near_bytes_per_cycle_ = Machine(target, ItemSize(DType::kFloat32)).FarBytesPerCycle(kStreamOverlap);
}

std::optional<ChainPlan> ChainModel::PlanOf(const Members& members) const {
  const std::vector<UOp*>& shared = members[0].shared;
  double iterations = 1;
  for (size_t i = 0; i + 1 < shared.size(); ++i) iterations *= static_cast<double>(SizeOf(shared[i]));
  const int64_t all = SizeOf(shared.back());
  // Pieces of rows are what memory and vectors like least.
  const std::vector<PlainKernel::Axis>& result = members[0].kernel.axes;
  if (shared.size() < result.size() && Contains(shared, result.back().range)) return std::nullopt;
  double won = 0, row_bytes = 0, work = 0, around = 0;
  for (const ChainMember& member : members) {
    work += WorkOf(member.kernel);
    around += BytesAround(member, members);
    const double repeated = BytesRepeated(member, members);
    won -= repeated * (kCopyCycles / vector_bytes_ + CyclesPerByte(repeated));
    if (member.buffer == nullptr) continue;
    const auto bytes = static_cast<double>(NumElements(member.buffer->shape()) * ItemSize(member.buffer->dtype()));
    won += bytes * static_cast<double>(1 + member.reads.loads) * CyclesPerByte(bytes);
    row_bytes += bytes / iterations / static_cast<double>(all);
  }
  const double max_local = std::min(l2_bytes_, static_cast<double>(kMaxLocalBytes)) / 2;
  const auto least = static_cast<int64_t>(std::min(row_bytes * static_cast<double>(all) / max_local, 1e9));
  const bool may_repeat = StoresOnce(members[0].kernel);
  std::optional<ChainPlan> best;
  for (int64_t blocks = std::max<int64_t>(1, least); blocks <= 2 * least + kMaxSlices; ++blocks) {
    const int64_t share = (all + blocks - 1) / blocks;
    const RowCut cut{std::min(all, (share + kTileRows - 1) / kTileRows * kTileRows), blocks};
    if (share < std::min(kTileRows, all)) break;
    const double slices = iterations * static_cast<double>(blocks);
    const double local = row_bytes * static_cast<double>(cut.rows);
    if (local > max_local || slices < 2 || (blocks - 1) * cut.rows >= all) continue;
    if (all % cut.rows != 0 && !may_repeat) continue;
    double lost = slices * around * kCopyCycles / vector_bytes_;
    if (local + around > l2_bytes_) lost += slices * around * CyclesPerByte(iterations * around);
    const double again = static_cast<double>(blocks * cut.rows) / static_cast<double>(all) - 1;
    const double uneven = std::ceil(slices / kCores) * kCores / slices - 1;
    lost += work * (again + uneven);
    if (!best.has_value() || won - lost > best->won) best = ChainPlan{won - lost, cut};
  }
  if (best.has_value() && best->won < kMinWon * work) best.reset();
  return best;
}

double ChainModel::CyclesPerByte(double bytes) const {
  return bytes <= l2_bytes_ ? 0 : bytes <= l3_bytes_ ? 1 / near_bytes_per_cycle_ : 1 / kFarBytesPerCycle;
}

double ChainModel::WorkOf(const PlainKernel& kernel) const {
  double work = 0;
  for (const auto& [uop, open] : OpenRanges(kernel.sink)) {
    double iterations = 0;
    if (uop->op() == Op::REDUCE) {
      iterations = IterationsOf(open);
      for (const UOp* range : uop->src().subspan(1)) iterations *= static_cast<double>(SizeOf(range));
    } else if (IsElementwise(uop->op()) && uop->dtype() != kIndexType) {
      iterations = IterationsOf(open) * kiln::compiler::WorkOf(uop);
    }
    const double lanes =
        std::max(1.0, vector_bytes_ / ItemSize(uop->dtype() == DType::kVoid ? DType::kInt8 : uop->dtype()));
    work += iterations / lanes / kVectorsPerCycle;
  }
  return work;
}

}  // namespace kiln::compiler
