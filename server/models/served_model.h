// One version of a model, ready to run: its program, its weights in the device's memory, and what goes in and out.
//
// Never changes. Whoever runs it holds it, so that one that is unloaded or replaced goes when its last run has ended.
#ifndef KILN_SERVER_MODELS_SERVED_MODEL_H_
#define KILN_SERVER_MODELS_SERVED_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/hal/device.h"
#include "server/engine/memory/buffer_table.h"
#include "server/engine/programs/program_store.h"
#include "server/models/counters.h"
#include "server/models/datatypes.h"
#include "server/models/sequences/sequence_config.h"
#include "server/models/sequences/sequencer.h"

namespace kiln::server {

// A number, or one of the model's variables.
struct ModelDimension {
  static constexpr size_t kNumber = SIZE_MAX;
  int64_t size = 0;
  size_t variable = kNumber;
};

struct ServedModel {
  struct Input {
    std::string name;
    uint32_t slot = 0;
    const Datatype* datatype = nullptr;
    std::vector<ModelDimension> shape;
    bool used = false;  // by the program, which else has no such slot
  };
  // A size that comes with each call, by the shapes of its inputs.
  struct Variable {
    uint32_t slot = 0;
    std::string name;
    int64_t least = 0, greatest = 0;
    bool used = false;
  };
  struct Output {
    std::string name;
    const Datatype* datatype = nullptr;
    std::vector<int64_t> shape;  // -1: depends on variables
  };
  struct Weight {
    uint32_t slot = 0;
    BufferTable::Record memory;
  };

  std::string name;
  uint64_t version = 0;
  runtime::hal::Device* device = nullptr;
  ProgramStore::Program program;
  std::vector<Input> inputs;
  std::vector<Variable> variables;
  std::vector<Output> outputs;  // in the order of the program's results
  std::vector<Weight> weights;
  // Of the weights, in the device's memory; those that other models have, too, count for each.
  uint64_t weight_bytes() const {
    uint64_t bytes = 0;
    for (const Weight& weight : weights) bytes += weight.memory->slice.bytes;
    return bytes;
  }
  // Of a model that keeps state; none: each request is for itself. States are no inputs or outputs then, and all of
  // these begin with the size that is `rows`.
  struct Sequences {
    SequenceConfig config;
    size_t rows = 0;  // of the variables
    std::shared_ptr<Sequencer> sequencer;
  };
  std::optional<Sequences> sequences;
  mutable ModelCounters counters;
};

using ServedModelPtr = std::shared_ptr<const ServedModel>;

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SERVED_MODEL_H_
