// Tested by tests/e2e/serving/models_test.cc and tests/e2e/serving/serving_test.py.
#include "server/models/load.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "models/onnx/model.h"
#include "server/engine/executions/arguments.h"
#include "server/models/graph_files.h"
#include "server/models/sequences/pooled_graph.h"
#include "server/models/sequences/sequence_config.h"

namespace kiln::server {
namespace {

absl::Status BadSizes(absl::string_view word) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("model_sizes");
  return MakeError(detail,
                   absl::StrCat("model_sizes: \"", absl::CHexEscape(word),
                                "\" is not as in batch=1:64,tokens=128,*=1:256: each from 1 on, the least first"));
}

absl::Status NotServed(absl::string_view name, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(v1::UNSUPPORTED_OP);
  detail.set_field(std::string(name));
  return MakeError(detail, absl::StrCat("\"", absl::CHexEscape(name), "\" ", why));
}

// A name that every client can read; strings of the protocol are UTF-8.
bool IsPlain(absl::string_view name) { return std::all_of(name.begin(), name.end(), absl::ascii_isprint); }

onnx::ImportOptions OptionsOf(const LoadSettings& settings) {
  onnx::ImportOptions options;
  for (const auto& [name, range] : settings.sizes.named) options.dimensions[name] = {range.least, range.greatest};
  if (settings.sizes.others) options.any_dimension = {settings.sizes.others->least, settings.sizes.others->greatest};
  const auto most = static_cast<int64_t>(std::min<uint64_t>(settings.max_bytes, INT64_MAX));
  options.limits.file_bytes = std::min(options.limits.file_bytes, most);
  options.limits.constant_bytes = std::min(options.limits.constant_bytes, most);
  options.limits.added_bytes = std::min(options.limits.added_bytes, most);
  return options;
}

// Of a graph as it lies in its file, `files` names that in errors.
absl::StatusOr<ProgramStore::Program> Compile(const onnx::Model& model, const ModelFiles& files,
                                              const LoadSettings& settings, Engine& engine, const SessionPtr& session,
                                              const Control& control) {
  CompileRequest asked{&model.graph, settings.device, {}, session};
  for (const onnx::Model::Constant& constant : model.constants) asked.options.constants.push_back(constant.slot);
  std::sort(asked.options.constants.begin(), asked.options.constants.end());
  absl::StatusOr<CompileResult> made;
  absl::Notification done;
  engine.Compile(asked, control, [&](absl::StatusOr<CompileResult> result) {
    made = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  if (!made.ok()) return files.is_graph ? Annotate(made.status(), kGraphFile) : made.status();
  return std::move(made->program);
}

// Of a variable, which an input's size of no number is one of.
size_t PlaceOf(const client::SizeVariable& variable, ServedModel& served) {
  size_t place = 0;
  while (place < served.variables.size() && served.variables[place].slot != variable.slot) ++place;
  if (place == served.variables.size())
    served.variables.push_back({variable.slot, variable.name, variable.least, variable.greatest});
  return place;
}

bool HasSlot(const v1::Signature& signature, uint32_t slot) {
  return std::any_of(signature.parameters().begin(), signature.parameters().end(),
                     [slot](const auto& row) { return row.slot() == slot; });
}

// Whether the steps of several sequences may be one run: the compiler has proved of the model as it is that rows do not
// mix. (Of the program over pools it cannot say so: that writes what it is given.)
bool RowsDoNotMix(const v1::Signature& signature, uint32_t batch) {
  return std::any_of(signature.variables().begin(), signature.variables().end(),
                     [batch](const auto& variable) { return variable.slot() == batch && variable.row_wise(); });
}

// How many bytes the results of a request for the program have; 0 of one that does not fit, which running it will say.
uint64_t ResultBytes(const runtime::Program& program, const ExecuteRequest& request) {
  BoundArguments bound;
  if (!MatchArguments(program, request.arguments, bound).ok()) return 0;
  uint64_t bytes = 0;
  for (const runtime::ProgramValue& result : program.results()) bytes += result.shape.BytesAt(bound.variables);
  return bytes;
}

// In place of a model with state, that of its program over pools: without states among its inputs and outputs, and with
// what runs it.
absl::Status AddSequences(const SequenceConfig& config, onnx::Model& model, const ModelFiles& files,
                          const LoadSettings& settings, Engine& engine, SequencerThreads& threads,
                          const SessionPtr& session, const Control& control, ServedModel& served) {
  KILN_ASSIGN_OR_RETURN(const ModelStates found, FindStates(model, config));
  KILN_ASSIGN_OR_RETURN(const ProgramStore::Program alone, Compile(model, files, settings, engine, session, control));
  if (files.is_graph) KILN_RETURN_IF_ERROR(CheckProgram(model, alone->signature()));
  Sequencer::Options options;
  options.max_sequences = config.max_sequences;
  if (RowsDoNotMix(alone->signature(), found.batch.slot))
    options.max_rows = std::min(config.max_sequences, static_cast<size_t>(found.batch.greatest));
  KILN_ASSIGN_OR_RETURN(PooledGraph pooled,
                        PoolStates(model, found, static_cast<int64_t>(options.max_sequences + options.max_rows)));
  model.graph = std::move(pooled.graph);
  KILN_ASSIGN_OR_RETURN(served.program, Compile(model, files, settings, engine, session, control));
  if (HasSlot(served.program->signature(), pooled.from_slot)) options.from_slot = pooled.from_slot;
  options.row_of_slot = pooled.row_of_slot;
  options.batch_slot = found.batch.slot;
  options.idle = config.idle;
  options.queue_delay = config.queue_delay;
  options.device = served.device;
  options.metrics = &engine.metrics();
  options.threads = &threads;
  options.result_bytes = [program = served.program](const ExecuteRequest& request) {
    return ResultBytes(*program->program, request);
  };
  options.run = [&engine](ExecuteRequest request, const Control& of_run, ExecuteCallback done) {
    engine.Execute(std::move(request), of_run, std::move(done));
  };
  std::vector<bool> is_input(model.inputs.size()), is_output(model.outputs.size());
  for (const ModelStates::State& state : found.states) {
    const onnx::Model::Input& input = model.inputs[state.input];
    options.pools.push_back({input.slot, input.dtype, state.row, state.row_bytes});
    is_input[state.input] = is_output[state.output] = true;
  }
  // Backwards, so that places stay what they are.
  for (size_t i = is_input.size(); i-- > 0;) {
    if (is_input[i]) served.inputs.erase(served.inputs.begin() + static_cast<ptrdiff_t>(i));
  }
  for (size_t i = is_output.size(); i-- > 0;) {
    if (is_output[i]) served.outputs.erase(served.outputs.begin() + static_cast<ptrdiff_t>(i));
  }
  served.sequences = {config, PlaceOf(found.batch, served), std::make_shared<Sequencer>(std::move(options))};
  return absl::OkStatus();
}

// What goes in and out, by the names that the protocol has for it.
absl::Status Describe(const onnx::Model& model, ServedModel& served) {
  for (const onnx::Model::Input& input : model.inputs) {
    if (!IsPlain(input.name)) return NotServed(input.name, "is an input's name that is not printable ASCII");
    const Datatype* const datatype = DatatypeOf(input.dtype);
    if (datatype == nullptr) return NotServed(input.name, "is an input of a type that the protocol has no name for");
    ServedModel::Input& made = served.inputs.emplace_back(ServedModel::Input{input.name, input.slot, datatype, {}});
    for (const client::Size& size : input.shape) {
      if (const auto number = size.number()) {
        made.shape.push_back({*number});
        continue;
      }
      made.shape.push_back({0, PlaceOf(size.terms().begin()->first.front(), served)});
    }
  }
  for (const onnx::Model::Output& output : model.outputs) {
    if (!IsPlain(output.name)) return NotServed(output.name, "is an output's name that is not printable ASCII");
    if (output.index.has_value() || !output.result.has_value())
      return NotServed(output.name, "is an output that is no tensor: a sequence, or an optional");
    const Datatype* const datatype = DatatypeOf(output.dtype);
    if (datatype == nullptr) return NotServed(output.name, "is an output of a type that the protocol has no name for");
    ServedModel::Output& made = served.outputs.emplace_back(ServedModel::Output{output.name, datatype, {}});
    for (const client::Size& size : output.shape) made.shape.push_back(size.number().value_or(-1));
  }
  return absl::OkStatus();
}

// Slots that the compiled program has: it has none for what does not matter.
void MarkUsed(ServedModel& served) {
  const v1::Signature& signature = served.program->signature();
  const auto has = [](const auto& rows, uint32_t slot) {
    return std::any_of(rows.begin(), rows.end(), [slot](const auto& row) { return row.slot() == slot; });
  };
  for (ServedModel::Input& input : served.inputs) input.used = has(signature.parameters(), input.slot);
  for (ServedModel::Variable& variable : served.variables) variable.used = has(signature.variables(), variable.slot);
}

}  // namespace

absl::StatusOr<ModelSizes> ParseModelSizes(absl::string_view text) {
  ModelSizes sizes;
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const size_t equals = word.rfind('=');
    if (equals == absl::string_view::npos || equals == 0) return BadSizes(word);
    const std::vector<absl::string_view> ends = absl::StrSplit(word.substr(equals + 1), ':');
    ModelSizes::Range range;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &range.least) ||
        !absl::SimpleAtoi(ends.back(), &range.greatest) || range.least < 1 || range.greatest < range.least) {
      return BadSizes(word);
    }
    const absl::string_view name = word.substr(0, equals);
    if (name == "*") {
      sizes.others = range;
    } else {
      sizes.named[std::string(name)] = range;
    }
  }
  return sizes;
}

absl::StatusOr<ServedModelPtr> LoadModel(const ModelFiles& files, const LoadSettings& settings, Engine& engine,
                                         SequencerThreads& threads, const SessionPtr& session, const Control& control,
                                         SharedConstants& constants) {
  if (!files.refused.empty()) {
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field(files.refused.substr(0, files.refused.find(':')));
    return MakeError(detail, files.refused);
  }
  if (files.bytes > settings.max_bytes) {
    return TooLarge(
        "model_limits.max_bytes", settings.max_bytes, files.bytes,
        absl::StrCat("the version's files have ", files.bytes, " bytes; at most ", settings.max_bytes, " are taken"));
  }
  auto served = std::make_shared<ServedModel>();
  served->name = files.name;
  served->version = files.version;
  KILN_ASSIGN_OR_RETURN(served->device, engine.FindDevice(settings.device));
  KILN_ASSIGN_OR_RETURN(const std::optional<SequenceConfig> sequences, ReadSequenceConfig(files.config));
  KILN_ASSIGN_OR_RETURN(onnx::Model model, files.is_graph ? ReadGraphFiles(files, settings.max_bytes, engine.limits())
                                                          : onnx::ImportFile(files.path, OptionsOf(settings)));
  KILN_RETURN_IF_ERROR(control.Check());
  if (absl::Status described = Describe(model, *served); !described.ok())
    return files.is_graph ? Annotate(described, kConstantsFile) : described;
  if (sequences.has_value()) {
    KILN_RETURN_IF_ERROR(AddSequences(*sequences, model, files, settings, engine, threads, session, control, *served));
  } else {
    KILN_ASSIGN_OR_RETURN(served->program, Compile(model, files, settings, engine, session, control));
    if (files.is_graph) KILN_RETURN_IF_ERROR(CheckProgram(model, served->program->signature()));
  }
  MarkUsed(*served);
  for (onnx::Model::Constant& constant : model.constants) {
    if (!HasSlot(served->program->signature(), constant.slot)) continue;
    KILN_RETURN_IF_ERROR(control.Check());
    KILN_ASSIGN_OR_RETURN(BufferTable::Record memory, constants.Hold(*served->device, constant.value.dtype,
                                                                     constant.value.shape, constant.value.bytes));
    served->weights.push_back({constant.slot, std::move(memory)});
    std::string().swap(constant.value.bytes);  // not both for longer than one tensor
  }
  return served;
}

}  // namespace kiln::server
