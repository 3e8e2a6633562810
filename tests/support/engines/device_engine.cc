#include "tests/support/engines/device_engine.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/compile.h"
#include "compiler/tools/dump_observer.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/load.h"
#include "runtime/hal/allocator.h"
#include "tests/support/transfers.h"

namespace kiln::testing {

using compiler::HostTensor;
using compiler::HostTensors;
using compiler::InterpResult;
using runtime::hal::BufferSlice;

compiler::Options ExactOptions() {
  compiler::Options options;
  options.contraction = false;
  return options;
}

DeviceEngine::DeviceEngine(std::unique_ptr<runtime::hal::Device> device)
    : device_(std::move(device)), target_(device_->target()) {}

DeviceEngine::~DeviceEngine() = default;

absl::StatusOr<BufferSlice> DeviceEngine::NewBuffer(uint64_t bytes) {
  std::shared_ptr<runtime::hal::Buffer> buffer;
  if (make_buffer_) {
    buffer = make_buffer_(*device_, bytes);
  } else {
    KILN_ASSIGN_OR_RETURN(buffer, device_->allocator().Allocate(bytes, runtime::hal::MemoryUse::kProgram));
  }
  BufferSlice slice = BufferSlice::Whole(std::move(buffer));
  slice.bytes = bytes;
  KILN_RETURN_IF_ERROR(Outcome([&](auto done) { device_->queue().Fill(slice, "\xA5", std::move(done)); }));
  return slice;
}

absl::StatusOr<HostTensor> DeviceEngine::ReadBack(v1::DType dtype, const std::vector<int64_t>& shape,
                                                  const BufferSlice& slice) {
  HostTensor tensor;
  tensor.dtype = compiler::FromWire(dtype);
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.bytes.resize(slice.bytes);
  KILN_RETURN_IF_ERROR(Outcome([&](auto done) { device_->queue().Read(slice, tensor.bytes.data(), std::move(done)); }));
  return tensor;
}

absl::StatusOr<std::shared_ptr<runtime::LoadedExecutable>> DeviceEngine::Load(const v1::Graph& graph,
                                                                              const compiler::Options& options) {
  const char* directory = std::getenv("KILN_DUMP");
  compiler::DumpObserver dump(directory == nullptr ? "" : directory);
  compiler::CompileObserver* observer = directory == nullptr ? nullptr : &dump;
  KILN_ASSIGN_OR_RETURN(v1::Executable executable, compiler::Compile(graph, target_, options, observer));
  // What set_target promises: this machine runs it, also where features are made up.
  *executable.mutable_target()->mutable_features() = device_->target().features();
  if (observer != nullptr) dump.WriteObject(executable.object());
  return runtime::Load(executable, *device_);
}

absl::StatusOr<std::shared_ptr<runtime::LoadedExecutable>> DeviceEngine::Load(const v1::Executable& executable) {
  return runtime::Load(executable, *device_);
}

absl::StatusOr<InterpResult> DeviceEngine::Run(const v1::Graph& graph, const HostTensors& arguments,
                                               const compiler::Options& options,
                                               const compiler::VariableValues& variables) {
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::LoadedExecutable> program, Load(graph, options));
  return RunLoaded(program, arguments, variables);
}

absl::StatusOr<DeviceEngine::Placed> DeviceEngine::Place(std::shared_ptr<runtime::LoadedExecutable> program,
                                                         const HostTensors& arguments,
                                                         const compiler::VariableValues& variables) {
  Placed placed;
  placed.program = std::move(program);
  const runtime::Plan& plan = placed.program->plan();
  for (const auto& variable : placed.program->signature().variables()) {
    const auto given = variables.find(variable.slot());
    placed.variables.push_back(given == variables.end() ? variable.default_value() : given->second);
  }
  KILN_RETURN_IF_ERROR(runtime::CheckVariables(plan.variables, plan.conditions, placed.variables));
  for (const auto& parameter : plan.parameters) {
    const auto found = arguments.find(parameter.slot);
    const uint64_t bytes = parameter.shape.BytesAt(placed.variables);
    KILN_CHECK(found != arguments.end() && found->second.bytes.size() == bytes);
    KILN_ASSIGN_OR_RETURN(BufferSlice slice, NewBuffer(bytes));
    const char* from = found->second.bytes.data();
    KILN_RETURN_IF_ERROR(Outcome([&](auto done) { device_->queue().Write(from, slice, std::move(done)); }));
    placed.parameters.push_back(std::move(slice));
  }
  for (const auto& result : plan.results) {
    BufferSlice slice;
    if (result.alias == runtime::PlanResult::kFresh) {
      KILN_ASSIGN_OR_RETURN(slice, NewBuffer(result.shape.BytesAt(placed.variables)));
    }
    placed.results.push_back(std::move(slice));
  }
  return placed;
}

absl::StatusOr<InterpResult> DeviceEngine::RunLoaded(const std::shared_ptr<runtime::LoadedExecutable>& program,
                                                     const HostTensors& arguments,
                                                     const compiler::VariableValues& variables) {
  KILN_ASSIGN_OR_RETURN(const Placed placed, Place(program, arguments, variables));
  KILN_RETURN_IF_ERROR(RunPlaced(placed).status());
  const runtime::Plan& plan = program->plan();

  const v1::Signature& signature = program->signature();
  InterpResult outcome;
  for (int i = 0; i < signature.results_size(); ++i) {
    const auto& result = signature.results(i);
    const BufferSlice& slice = result.has_aliases() ? placed.parameters[result.aliases()] : placed.results[i];
    KILN_ASSIGN_OR_RETURN(HostTensor made, ReadBack(result.dtype(), plan.results[i].shape.At(placed.variables), slice));
    outcome.results.push_back(std::move(made));
  }
  for (int i = 0; i < signature.parameters_size(); ++i) {
    const auto& parameter = signature.parameters(i);
    KILN_ASSIGN_OR_RETURN(HostTensor now, ReadBack(parameter.dtype(), plan.parameters[i].shape.At(placed.variables),
                                                   placed.parameters[i]));
    if (parameter.written()) {
      outcome.written[parameter.slot()] = std::move(now);
    } else {
      KILN_CHECK(now.bytes == arguments.at(parameter.slot()).bytes);  // nothing else was touched
    }
  }
  return outcome;
}

absl::StatusOr<std::vector<double>> DeviceEngine::RunPlaced(const Placed& placed, int count) {
  runtime::RunOptions options;
  options.control.domain = MemoryDomain::kFirst;  // as one tenant's runs
  options.results = placed.results;
  options.variables = placed.variables;
  // One thread completes all runs of a device, in order.
  std::vector<absl::StatusOr<double>> outcomes;
  outcomes.reserve(static_cast<size_t>(count));
  absl::Notification done;
  for (int run = 0; run < count; ++run) {
    runtime::Executor(observer_).Run(placed.program, placed.parameters, options,
                                     [&](absl::StatusOr<runtime::RunResult> outcome) {
                                       if (outcome.ok()) {
                                         outcomes.push_back(outcome->device_seconds);
                                       } else {
                                         outcomes.push_back(outcome.status());
                                       }
                                       if (outcomes.size() == static_cast<size_t>(count)) done.Notify();
                                     });
  }
  done.WaitForNotification();
  std::vector<double> seconds;
  for (const absl::StatusOr<double>& outcome : outcomes) {
    KILN_RETURN_IF_ERROR(outcome.status());
    seconds.push_back(*outcome);
  }
  return seconds;
}

absl::StatusOr<double> DeviceEngine::BestSeconds(const std::shared_ptr<runtime::LoadedExecutable>& program,
                                                 const HostTensors& arguments, int turns) {
  KILN_ASSIGN_OR_RETURN(const Placed placed, Place(program, arguments));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> seconds, RunPlaced(placed, turns + 1));
  return *std::min_element(seconds.begin(), seconds.end());
}

}  // namespace kiln::testing
