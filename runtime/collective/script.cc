#include "runtime/collective/script.h"

#include <cstring>

#include "absl/types/span.h"
#include "base/check.h"
#include "runtime/cluster/packing.h"

namespace kiln::runtime::collective {
namespace {

// Every pair of participants has a tag of its own, each way: several may be in one
// process. Parcels of one tag keep their order.
uint32_t Tag(const Script& script, uint32_t from, uint32_t to) { return (script.number * 64 + to) * 64 + from; }

void* Memory(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

std::string Pack(const Script& script) {
  cluster::Packer packer;
  packer.Number(script.number).Number(script.self).Number(script.dtype).Number(script.op);
  packer.Number<uint32_t>(script.places.size());
  for (uint32_t place : script.places) packer.Number(place);
  packer.Number<uint32_t>(script.steps.size());
  for (const ScriptStep& step : script.steps) {
    packer.Number(step.kind).Number(step.peer).Number(step.from).Number(step.to).Number(step.bytes);
    packer.Number<uint32_t>(step.inputs.size());
    for (uint64_t input : step.inputs) packer.Number(input);
  }
  return packer.Take();
}

namespace {

Script Read(cluster::Unpacker& unpacker) {
  // Of a step: its numbers, and how many inputs there are.
  constexpr uint64_t kLeast = 1 + 4 + 3 * 8 + 4;
  Script script;
  script.number = unpacker.Number<uint32_t>();
  script.self = unpacker.Number<uint32_t>();
  script.dtype = unpacker.Number<v1::DType>();
  script.op = unpacker.Number<ReduceOp>();
  script.places.resize(unpacker.Count<uint32_t>(sizeof(uint32_t)));
  for (uint32_t& place : script.places) place = unpacker.Number<uint32_t>();
  script.steps.resize(unpacker.Count<uint32_t>(kLeast));
  for (ScriptStep& step : script.steps) {
    step.kind = unpacker.Number<ScriptStep::Kind>();
    step.peer = unpacker.Number<uint32_t>();
    step.from = unpacker.Number<uint64_t>();
    step.to = unpacker.Number<uint64_t>();
    step.bytes = unpacker.Number<uint64_t>();
    step.inputs.resize(unpacker.Count<uint32_t>(sizeof(uint64_t)));
    for (uint64_t& input : step.inputs) input = unpacker.Number<uint64_t>();
  }
  return script;
}

// What is wrong with a step; null if nothing is.
const char* FaultOf(const ScriptStep& step, const Script& script, const cluster::Ranges& memory) {
  constexpr const char* kForeign = "has a step on memory that this rank has not given";
  const bool has_peer = step.peer < script.places.size();
  const bool reads = cluster::Holds(memory, step.from, step.bytes),
             writes = cluster::Holds(memory, step.to, step.bytes);
  switch (step.kind) {
    case ScriptStep::Kind::kSend: return !has_peer ? "sends to nobody" : reads ? nullptr : kForeign;
    case ScriptStep::Kind::kReceive: return !has_peer ? "receives from nobody" : writes ? nullptr : kForeign;
    case ScriptStep::Kind::kWait: return nullptr;
    case ScriptStep::Kind::kCopy: return reads && writes ? nullptr : kForeign;
    case ScriptStep::Kind::kReduce: {
      const bool known = script.op >= ReduceOp::kSum && script.op <= ReduceOp::kMax;
      const Arithmetic* const arithmetic = known ? ArithmeticOf(script.dtype, script.op) : nullptr;
      if (arithmetic == nullptr || step.inputs.empty()) return "adds up nothing";
      bool inside = writes;
      for (const uint64_t input : step.inputs) {
        inside &= cluster::Holds(memory, input, step.bytes);
      }
      return inside ? nullptr : kForeign;
    }
  }
  return "has a step that this build does not know";
}

}  // namespace

absl::StatusOr<Script> UnpackScript(absl::string_view bytes, uint32_t rank, uint32_t ranks,
                                    const cluster::Ranges& memory) {
  cluster::Unpacker unpacker(bytes);
  Script script = Read(unpacker);
  if (!unpacker.ok()) return cluster::BadMessage("ends within its script");
  if (script.number >= kScripts || script.places.size() > cluster::kMaxRanks || script.self >= script.places.size() ||
      script.places[script.self] != rank) {
    return cluster::BadMessage("has a script of another");
  }
  for (const uint32_t place : script.places) {
    if (place >= ranks) return cluster::BadMessage("names a rank that there is not");
  }
  for (const ScriptStep& step : script.steps) {
    if (const char* const fault = FaultOf(step, script, memory); fault != nullptr) return cluster::BadMessage(fault);
  }
  return script;
}

absl::Status Run(const Script& script, cluster::Transport& transport) {
  std::vector<cluster::Transport::ParcelPtr> parcels;
  absl::Status status;
  const auto wait = [&] {
    // All of them, whatever happens: afterwards nobody touches the memory.
    for (const auto& parcel : parcels) status.Update(transport.Wait(parcel, script.places));
    parcels.clear();
  };
  for (const ScriptStep& step : script.steps) {
    switch (step.kind) {
      case ScriptStep::Kind::kSend:
        parcels.push_back(transport.Send(script.places[step.peer], Tag(script, script.self, step.peer),
                                         Memory(step.from), step.bytes));
        break;
      case ScriptStep::Kind::kReceive:
        parcels.push_back(transport.Receive(script.places[step.peer], Tag(script, step.peer, script.self),
                                            Memory(step.to), step.bytes));
        break;
      case ScriptStep::Kind::kWait: wait(); break;
      case ScriptStep::Kind::kCopy:
        if (step.bytes != 0) std::memmove(Memory(step.to), Memory(step.from), step.bytes);
        break;
      case ScriptStep::Kind::kReduce: {
        const Arithmetic* const arithmetic = ArithmeticOf(script.dtype, script.op);
        KILN_CHECK(arithmetic != nullptr);
        std::vector<const void*> inputs;
        for (uint64_t input : step.inputs) inputs.push_back(Memory(input));
        void* const output = Memory(step.to);
        arithmetic->reduce(inputs.data(), static_cast<uint32_t>(inputs.size()), &output, 1,
                           step.bytes / arithmetic->item_bytes);
        break;
      }
    }
    if (!status.ok()) break;
  }
  wait();
  return status;
}

}  // namespace kiln::runtime::collective
