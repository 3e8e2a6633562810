#include "tests/support/engines/multi_engine.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/compile_program.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/exec/task_run.h"

namespace kiln::testing {

using compiler::HostTensor;
using compiler::InterpResult;
using runtime::ProgramValue;
using runtime::hal::BufferSlice;

namespace {

runtime::ValueLayout WholeOf(const runtime::ValueLayout& layout) { return {layout.shape, -1, 1}; }

void CopyRun(const char* from, char* to, uint64_t bytes) { std::memcpy(to, from, bytes); }

// The share of this number, from a whole value in host memory.
void TakeShare(const ProgramValue& value, size_t share, const HostTensor& whole, char* part) {
  const auto item = static_cast<uint32_t>(compiler::ItemSize(whole.dtype));
  const auto box = runtime::MeetShares(WholeOf(value.layout), 0, value.layout, static_cast<int64_t>(share), item);
  if (box.has_value()) runtime::ForEachRun(*box, whole.bytes.data(), part, CopyRun);
}

// And back.
void GiveShare(const ProgramValue& value, size_t share, const char* part, HostTensor& whole) {
  const auto item = static_cast<uint32_t>(compiler::ItemSize(whole.dtype));
  const auto box = runtime::MeetShares(value.layout, static_cast<int64_t>(share), WholeOf(value.layout), 0, item);
  if (box.has_value()) runtime::ForEachRun(*box, part, whole.bytes.data(), CopyRun);
}

HostTensor Gathered(const ProgramValue& value, absl::Span<const BufferSlice> slices) {
  HostTensor tensor;
  tensor.dtype = compiler::FromWire(value.dtype);
  tensor.shape.assign(value.layout.shape.begin(), value.layout.shape.end());
  auto bytes = static_cast<uint64_t>(compiler::ItemSize(tensor.dtype));
  for (int64_t size : value.layout.shape) bytes *= static_cast<uint64_t>(size);
  tensor.bytes.resize(bytes);
  for (size_t share = 0; share < slices.size(); ++share) {
    const char* part = static_cast<const char*>(slices[share].host_data());
    if (value.layout.axis < 0 && share > 0) KILN_CHECK(std::memcmp(part, tensor.bytes.data(), bytes) == 0);
    GiveShare(value, share, part, tensor);
  }
  return tensor;
}

}  // namespace

MultiEngine::MultiEngine(int devices, bool as_one)
    : as_one_(as_one), collectives_(&meetings_, &thresholds_, absl::Seconds(60)) {
  auto pool = std::make_shared<runtime::cpu::WorkerPool>(runtime::cpu::WorkerPool::Options{.threads = 1});
  for (int i = 0; i < devices; ++i) {
    runtime::cpu::DeviceOptions options;
    options.name = absl::StrCat("D", i);
    options.pool = pool;
    options.memory_limit_bytes = 1 << 30;
    auto device = runtime::cpu::CreateDevice(std::move(options));
    KILN_CHECK(device.ok());
    devices_.push_back(*std::move(device));
  }
}

MultiEngine::~MultiEngine() { runtime::hal::DrainAll(devices_); }

absl::StatusOr<v1::MultiProgram> MultiEngine::Compile(const v1::Graph& graph, const compiler::Options& options) const {
  return compiler::CompileForDevices(graph, devices_[0]->target(), options);
}

absl::StatusOr<std::shared_ptr<const runtime::Program>> MultiEngine::Load(const v1::MultiProgram& program) const {
  std::vector<runtime::hal::Device*> devices;
  for (const std::string& name : program.devices()) {
    runtime::hal::Device* found = name.empty() || as_one_ ? devices_[0].get() : nullptr;
    for (const auto& device : devices_) {
      if (!as_one_ && device->name() == name) found = device.get();
    }
    if (found == nullptr) return MakeError(v1::UNKNOWN_DEVICE, absl::StrCat("there is no device ", name));
    devices.push_back(found);
  }
  return runtime::Program::Load(program, devices);
}

absl::StatusOr<InterpResult> MultiEngine::Run(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                              const compiler::Options& options,
                                              const compiler::VariableValues& variables) {
  KILN_ASSIGN_OR_RETURN(const v1::MultiProgram message, Compile(graph, options));
  KILN_ASSIGN_OR_RETURN(const auto program, Load(message));
  return RunLoaded(program, arguments, variables);
}

absl::StatusOr<InterpResult> MultiEngine::RunLoaded(const std::shared_ptr<const runtime::Program>& loaded,
                                                    const compiler::HostTensors& arguments,
                                                    const compiler::VariableValues& variables) {
  std::vector<int64_t> values;
  for (const auto& variable : loaded->signature().variables()) {
    const auto given = variables.find(variable.slot());
    values.push_back(given == variables.end() ? variable.default_value() : given->second);
  }
  std::shared_ptr<const runtime::Program> program = loaded;
  if (loaded->is_family()) {
    KILN_ASSIGN_OR_RETURN(program, loaded->At(values));
  }
  const v1::Signature& signature = program->signature();
  std::vector<BufferSlice> shares;
  for (size_t i = 0; i < program->parameters().size(); ++i) {
    const ProgramValue& value = program->parameters()[i];
    const HostTensor& tensor = arguments.at(signature.parameters(static_cast<int>(i)).slot());
    for (size_t share = 0; share < value.slices.size(); ++share) {
      const runtime::ProgramSlice& slice = program->slices()[value.slices[share]];
      KILN_ASSIGN_OR_RETURN(
          auto buffer,
          program->device(slice.device).allocator().Allocate(slice.bytes, runtime::hal::MemoryUse::kProgram));
      TakeShare(value, share, tensor, static_cast<char*>(buffer->host_data()));
      shares.push_back(BufferSlice::Whole(std::move(buffer)));
    }
  }
  runtime::RunOptions run_options;
  run_options.control.domain = MemoryDomain::kFirst;  // as one tenant's runs
  run_options.variables = values;
  absl::StatusOr<std::vector<BufferSlice>> results;
  absl::Notification done;
  runtime::TaskRun::Start(program, shares, run_options, runtime::Executor(), &collectives_,
                          [&](absl::StatusOr<runtime::TaskRunResult> result) {
                            if (result.ok()) {
                              results = std::move(result->results);
                            } else {
                              results = result.status();
                            }
                            done.Notify();
                          });
  done.WaitForNotification();
  KILN_RETURN_IF_ERROR(results.status());
  InterpResult outcome;
  size_t next = 0;
  for (const ProgramValue& value : program->results()) {
    outcome.results.push_back(Gathered(value, absl::MakeSpan(*results).subspan(next, value.slices.size())));
    next += value.slices.size();
  }
  next = 0;
  for (size_t i = 0; i < program->parameters().size(); ++i) {
    const ProgramValue& value = program->parameters()[i];
    const v1::Signature::Parameter& parameter = signature.parameters(static_cast<int>(i));
    HostTensor now = Gathered(value, absl::MakeSpan(shares).subspan(next, value.slices.size()));
    next += value.slices.size();
    if (parameter.written()) {
      outcome.written[parameter.slot()] = std::move(now);
    } else {
      KILN_CHECK(now.bytes == arguments.at(parameter.slot()).bytes);
    }
  }
  return outcome;
}

}  // namespace kiln::testing
