#include "compiler/lower/program_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/ir/devices.h"
#include "compiler/lower/executable_builder.h"

namespace kiln::compiler {
namespace {

constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 60;

uint64_t BytesOf(const UOp* share) {
  return static_cast<uint64_t>(MaxElements(share->shape())) * static_cast<uint64_t>(ItemSize(share->dtype()));
}

}  // namespace

ProgramBuilder::ProgramBuilder(Graph& graph, UOp* root, const Shares& shares, const Levels& levels, const Cut& cut)
    : graph_(graph), root_(root), shares_(shares), levels_(levels), cut_(cut) {
  for (const Shares::Parameter& parameter : shares.parameters)
    by_slot_[parameter.share->arg_as<BufferArg>().slot] = parameter.share;
  for (const Transfer& transfer : shares.transfers)
    by_slot_[transfer.target->arg_as<BufferArg>().slot] = transfer.target;
  for (const auto& [slot, value] : cut.crossing) by_slot_[slot] = value;
}

absl::StatusOr<v1::MultiProgram> ProgramBuilder::Build() {
  AddInterface();
  size_t executable = 0;
  for (size_t i = 0; i < cut_.steps.size(); ++i) {
    v1::MultiStep* step = program_.add_steps();
    if (const Segment* segment = std::get_if<Segment>(&cut_.steps[i])) {
      step->mutable_segment()->set_executable(static_cast<uint32_t>(executable++));
      AddSegment(*segment, static_cast<int>(i), *step->mutable_segment());
    } else {
      AddTransfer(shares_.transfers[std::get<size_t>(cut_.steps[i])], static_cast<int>(i), *step->mutable_transfer());
    }
  }
  for (size_t i = 0; i < shares_.results.size(); ++i) {
    const Shares::Result& result = shares_.results[i];
    program_.add_result_values(result.aliases.has_value() ? program_.parameter_values(static_cast<int>(*result.aliases))
                                                          : ValueAt(memory_of_result_[i], result.value,
                                                                    result.whole->shape(), result.layout.axis));
  }
  KILN_RETURN_IF_ERROR(PlaceArenas());
  *program_.mutable_signature() = Signature();
  for (v1::Executable& made : executables_) {
    v1::Cost& cost = *program_.mutable_cost();
    cost.set_flops(cost.flops() + made.cost().flops());
    cost.set_bytes_read(cost.bytes_read() + made.cost().bytes_read());
    cost.set_bytes_written(cost.bytes_written() + made.cost().bytes_written());
    cost.set_run_ns(cost.run_ns() + made.cost().run_ns());
    cost.set_varies(cost.varies() || made.cost().varies());
    *program_.add_executables() = std::move(made);
  }
  return std::move(program_);
}

std::vector<uint32_t> ProgramBuilder::DevicesOf(const std::string& devices) {
  std::vector<std::string> names = SplitDevices(devices);
  if (names.empty()) names.emplace_back();
  std::vector<uint32_t> indices;
  for (const std::string& name : names) {
    const auto [found, is_new] = device_index_.emplace(name, program_.devices_size());
    if (is_new) program_.add_devices(name);
    indices.push_back(found->second);
  }
  return indices;
}

size_t ProgramBuilder::AddMemory(v1::PlacedValue::Space space, size_t index, const UOp* share,
                                 const std::string& devices) {
  memories_.push_back({space, static_cast<uint32_t>(index), DevicesOf(devices), BytesOf(share)});
  return memories_.size() - 1;
}

size_t ProgramBuilder::MemoryOf(UOp* value, const std::string& devices) {
  UOp* memory = levels_.Reaches(value) ? levels_.MemoryOf(value) : nullptr;
  if (memory == nullptr) memory = value;
  const auto [found, is_new] = memory_of_.emplace(memory, memories_.size());
  if (is_new) AddMemory(v1::PlacedValue::ARENA, 0, memory, devices);
  return found->second;
}

uint32_t ProgramBuilder::ValueAt(size_t memory, const UOp* share, const Shape& whole, int axis) {
  v1::PlacedValue* value = program_.add_values();
  value->set_dtype(ToWire(share->dtype()));
  for (size_t i = 0; i < whole.size(); ++i) {
    value->add_shape(whole[i].max());
    if (whole[i].IsConst()) continue;
    v1::Signature::SymbolicAxis* symbolic = value->add_symbolic();
    symbolic->set_axis(static_cast<uint32_t>(i));
    *symbolic->mutable_size() = ToPostfix(whole[i].expr(), shares_.variables);
  }
  for (uint32_t device : memories_[memory].devices) value->mutable_placement()->add_device(device);
  if (axis >= 0) value->mutable_placement()->set_axis(static_cast<uint32_t>(axis));
  value->set_space(memories_[memory].space);
  value->set_index(memories_[memory].index);
  memory_of_value_.push_back(memory);
  return static_cast<uint32_t>(program_.values_size() - 1);
}

uint32_t ProgramBuilder::ShareAt(size_t memory, const UOp* share) { return ValueAt(memory, share, share->shape(), -1); }

void ProgramBuilder::Use(size_t memory, int step, bool overwrites) {
  Memory& used = memories_[memory];
  if (used.first < 0) {
    used.first = step;
    used.overwritten = overwrites;
  }
  used.last = step;
}

void ProgramBuilder::AddInterface() {
  for (size_t i = 0; i < shares_.parameters.size(); ++i) {
    const Shares::Parameter& parameter = shares_.parameters[i];
    const size_t memory = AddMemory(v1::PlacedValue::PARAMETER, i, parameter.share, parameter.layout.devices);
    memory_of_[parameter.share] = memory;
    program_.add_parameter_values(ValueAt(memory, parameter.share, parameter.whole->shape(), parameter.layout.axis));
  }
  for (size_t i = 0; i < shares_.results.size(); ++i) {
    const Shares::Result& result = shares_.results[i];
    memory_of_result_.push_back(kNone);
    if (result.aliases.has_value()) continue;
    const size_t memory = AddMemory(v1::PlacedValue::RESULT, i, result.value, result.layout.devices);
    memory_of_result_.back() = memory;
    // The first result that a value is, is where it is kept.
    UOp* kept = levels_.MemoryOf(result.value);
    if (kept != nullptr && (levels_.IsComputed(kept) || levels_.IsTransferred(kept))) memory_of_.emplace(kept, memory);
  }
}

void ProgramBuilder::AddSegment(const Segment& segment, int step, v1::SegmentStep& message) {
  for (uint32_t device : DevicesOf(segment.devices)) message.add_device(device);
  const v1::Signature& signature = executables_[message.executable()].signature();
  for (const v1::Signature::Parameter& parameter : signature.parameters()) {
    UOp* value = by_slot_.at(parameter.slot());
    const size_t memory = MemoryOf(value, segment.devices);
    Use(memory, step, parameter.overwritten() && DevicesOf(segment.devices) == memories_[memory].devices);
    message.add_parameters(ShareAt(memory, value));
  }
  KILN_CHECK(signature.results_size() == static_cast<int>(segment.outputs.size()));
  for (const Segment::Output& output : segment.outputs) {
    const size_t memory =
        output.result.has_value() ? memory_of_result_[*output.result] : MemoryOf(output.value, segment.devices);
    Use(memory, step);
    message.add_results(ShareAt(memory, output.value));
  }
  for (const v1::Signature::Variable& variable : signature.variables()) {
    v1::SegmentStep::VariableValue* value = message.add_variables();
    const auto known = std::find_if(shares_.variables.begin(), shares_.variables.end(),
                                    [&](const UOp* uop) { return uop->arg_as<BufferArg>().slot == variable.slot(); });
    if (known == shares_.variables.end()) {
      value->set_device_number(true);
    } else {
      value->set_variable(static_cast<uint32_t>(known - shares_.variables.begin()));
    }
  }
}

void ProgramBuilder::AddTransfer(const Transfer& transfer, int step, v1::TransferStep& message) {
  message.set_kind(KindOf(transfer));
  const size_t from = MemoryOf(transfer.source, transfer.from.devices);
  const size_t to = MemoryOf(transfer.target, transfer.to.devices);
  Use(from, step);
  Use(to, step);
  message.set_from(ValueAt(from, transfer.source, transfer.shape, transfer.from.axis));
  message.set_to(ValueAt(to, transfer.target, transfer.shape, transfer.to.axis));
  if (transfer.reduce_op.has_value()) message.set_reduce_op(static_cast<v1::Op>(*transfer.reduce_op));
}

// Largest first, each at the lowest offset that is free for all of its life.
absl::Status ProgramBuilder::PlaceArenas() {
  std::vector<size_t> order;
  for (size_t i = 0; i < memories_.size(); ++i) {
    if (memories_[i].space == v1::PlacedValue::ARENA) order.push_back(i);
    memories_[i].offsets.resize(memories_[i].devices.size());
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return memories_[a].bytes > memories_[b].bytes; });
  struct Placed {
    const Memory* memory;
    uint64_t begin, end;
  };
  std::vector<std::vector<Placed>> placed(static_cast<size_t>(program_.devices_size()));
  std::vector<uint64_t> arenas(placed.size(), 0);
  for (size_t i : order) {
    Memory& memory = memories_[i];
    const uint64_t bytes = (memory.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    for (size_t share = 0; share < memory.devices.size(); ++share) {
      std::vector<Placed>& there = placed[memory.devices[share]];
      uint64_t offset = 0;
      for (const Placed& other : there) {
        if (memory.first > other.memory->last || other.memory->first > memory.last) continue;
        if (offset + bytes <= other.begin) break;
        offset = std::max(offset, other.end);
      }
      if (offset + bytes > kMaxArenaBytes)
        return MakeError(v1::SIZE_OVERFLOW, "the values between the steps of the program fit in no device's memory");
      memory.offsets[share] = offset;
      const auto at = std::upper_bound(there.begin(), there.end(), offset,
                                       [](uint64_t begin, const Placed& other) { return begin < other.begin; });
      there.insert(at, {&memory, offset, offset + bytes});
      uint64_t& arena = arenas[memory.devices[share]];
      arena = std::max(arena, offset + bytes);
    }
  }
  for (uint64_t bytes : arenas) program_.add_arena_bytes(bytes);
  for (int i = 0; i < program_.values_size(); ++i) {
    const Memory& memory = memories_[memory_of_value_[static_cast<size_t>(i)]];
    if (memory.space != v1::PlacedValue::ARENA) continue;
    for (uint64_t offset : memory.offsets) program_.mutable_values(i)->add_offset(offset);
  }
  return absl::OkStatus();
}

v1::Signature ProgramBuilder::Signature() {
  Function function;
  for (const Shares::Parameter& parameter : shares_.parameters) {
    function.parameters.push_back(parameter.whole);
    // The interface's memories are the first, in its order.
    function.overwritten.push_back(memories_[function.written.size()].overwritten);
    function.written.push_back(!parameter.stores.empty());
  }
  function.variables = shares_.variables;
  function.bindings = graph_.bindings();
  function.conditions = ConditionsOf(graph_, root_);  // also of what no segment computes
  for (const Shares::Result& result : shares_.results)
    function.results.push_back({result.whole, nullptr, result.aliases});
  return SignatureOf(function);
}

v1::TransferStep::Kind KindOf(const Transfer& transfer) {
  const bool to_one = DeviceCount(transfer.to.devices) == 1, from_one = DeviceCount(transfer.from.devices) == 1;
  const bool same = transfer.from.devices == transfer.to.devices;
  const bool to_all = transfer.to.axis < 0;
  if (transfer.reduce_op.has_value()) {
    if (to_one) return v1::TransferStep::REDUCE;
    if (!same) return v1::TransferStep::RESHARD;
    return to_all ? v1::TransferStep::ALL_REDUCE : v1::TransferStep::REDUCE_SCATTER;
  }
  if (from_one) {
    if (to_one) return v1::TransferStep::RESHARD;
    return to_all ? v1::TransferStep::BROADCAST : v1::TransferStep::SCATTER;
  }
  // The shares lie one behind the other in the whole.
  bool in_a_row = transfer.from.axis >= 0;
  for (int i = 0; i < transfer.from.axis; ++i) in_a_row &= transfer.shape[static_cast<size_t>(i)] == 1;
  if (!in_a_row) return v1::TransferStep::RESHARD;
  if (to_one) return v1::TransferStep::GATHER;
  return same && to_all ? v1::TransferStep::ALL_GATHER : v1::TransferStep::RESHARD;
}

}  // namespace kiln::compiler
