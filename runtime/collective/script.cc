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

Script UnpackScript(absl::string_view bytes) {
  cluster::Unpacker unpacker(bytes);
  Script script;
  script.number = unpacker.Number<uint32_t>();
  script.self = unpacker.Number<uint32_t>();
  script.dtype = unpacker.Number<v1::DType>();
  script.op = unpacker.Number<ReduceOp>();
  script.places.resize(unpacker.Number<uint32_t>());
  for (uint32_t& place : script.places) place = unpacker.Number<uint32_t>();
  script.steps.resize(unpacker.Number<uint32_t>());
  for (ScriptStep& step : script.steps) {
    step.kind = unpacker.Number<ScriptStep::Kind>();
    step.peer = unpacker.Number<uint32_t>();
    step.from = unpacker.Number<uint64_t>();
    step.to = unpacker.Number<uint64_t>();
    step.bytes = unpacker.Number<uint64_t>();
    step.inputs.resize(unpacker.Number<uint32_t>());
    for (uint64_t& input : step.inputs) input = unpacker.Number<uint64_t>();
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
