#include "tests/support/executable_run.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace kiln::testing {
namespace {

using compiler::HostTensor;

class Bytes {
 public:
  Bytes(uint64_t bytes, GuardedBuffer::Side side, uint64_t beside = 0)
      : beside_(beside), buffer_(std::make_unique<GuardedBuffer>(nullptr, bytes + beside, side)) {
    std::memset(data(), 0xA5, bytes);
  }
  Bytes(const std::string& content, GuardedBuffer::Side side, uint64_t beside = 0)
      : Bytes(content.size(), side, beside) {
    std::copy(content.begin(), content.end(), data());
  }
  char* data() const { return static_cast<char*>(buffer_->host_data()) + beside_; }
  uint64_t size() const { return buffer_->bytes() - beside_; }
  std::string Copy() const { return std::string(data(), size()); }
  bool Intact() const { return buffer_->Intact(); }

 private:
  uint64_t beside_;
  std::unique_ptr<GuardedBuffer> buffer_;
};

HostTensor TensorOf(v1::DType dtype, const google::protobuf::RepeatedField<int64_t>& shape, const Bytes& bytes) {
  HostTensor tensor;
  tensor.dtype = compiler::FromWire(dtype);
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.bytes = bytes.Copy();
  return tensor;
}

struct Run {
  const v1::Executable& executable;
  const RunKernel& run_kernel;
  std::vector<Bytes> parameters, results, prepared;
  std::vector<int64_t> variables;
  Bytes arena, constants;

  OperandRange Place(const v1::Operand& operand) const {
    const auto from = [&](const Bytes& bytes, uint64_t offset) {
      return OperandRange{reinterpret_cast<uint64_t>(bytes.data()) + offset, bytes.size() - offset, operand.written()};
    };
    switch (operand.space()) {
      case v1::Operand::PARAMETER: return from(parameters[operand.index()], 0);
      case v1::Operand::RESULT: return from(results[operand.index()], 0);
      case v1::Operand::ARENA: return from(arena, operand.offset());
      case v1::Operand::CONSTANTS: return from(constants, operand.offset());
      case v1::Operand::PREPARED: return from(prepared[operand.index()], 0);
      default: KILN_CHECK(false);
    }
  }

  bool Intact() const {
    const auto intact = [](const Bytes& bytes) { return bytes.Intact(); };
    return std::all_of(parameters.begin(), parameters.end(), intact) &&
           std::all_of(results.begin(), results.end(), intact) &&
           std::all_of(prepared.begin(), prepared.end(), intact) && arena.Intact() && constants.Intact();
  }

  absl::Status Launch(const v1::Step& step) const {
    const v1::Kernel& kernel = executable.kernels(static_cast<int>(step.kernel()));
    const v1::Launch& launch = kernel.launch();
    if (launch.groups_size() != 3 || launch.items_size() != 3)
      return absl::InternalError(absl::StrCat(kernel.symbol(), " has no launch"));
    std::vector<uint64_t> values;
    std::vector<OperandRange> memory;
    for (const v1::Operand& operand : step.operands()) {
      if (operand.space() == v1::Operand::VARIABLE) {
        values.push_back(static_cast<uint64_t>(variables[operand.index()]));
      } else {
        memory.push_back(Place(operand));
        values.push_back(memory.back().begin);
      }
    }
    KILN_RETURN_IF_ERROR(run_kernel({kernel,
                                     {launch.groups(0), launch.groups(1), launch.groups(2)},
                                     {launch.items(0), launch.items(1), launch.items(2)},
                                     values,
                                     memory}));
    return Intact() ? absl::OkStatus()
                    : absl::OutOfRangeError(absl::StrCat(kernel.symbol(), " writes beyond the end of a buffer"));
  }
};

}  // namespace

absl::StatusOr<compiler::InterpResult> RunExecutable(const v1::Executable& executable,
                                                     const compiler::HostTensors& arguments,
                                                     const compiler::VariableValues& variables,
                                                     GuardedBuffer::Side side, const RunKernel& run_kernel,
                                                     uint64_t beside) {
  const v1::Signature& signature = executable.signature();
  Run run = {executable,
             run_kernel,
             {},
             {},
             {},
             {},
             Bytes(executable.arena_bytes(), side),
             Bytes(executable.constants(), side)};
  for (const auto& parameter : signature.parameters())
    run.parameters.emplace_back(arguments.at(parameter.slot()).bytes, side, beside);
  for (const auto& result : signature.results()) run.results.emplace_back(result.bytes(), side, beside);
  for (const auto& preparation : executable.preparations()) run.prepared.emplace_back(preparation.bytes(), side);
  for (const auto& variable : signature.variables()) run.variables.push_back(variables.at(variable.slot()));
  for (const auto& preparation : executable.preparations()) KILN_RETURN_IF_ERROR(run.Launch(preparation.step()));
  for (const v1::Step& step : executable.steps()) KILN_RETURN_IF_ERROR(run.Launch(step));

  compiler::InterpResult outcome;
  for (int i = 0; i < signature.results_size(); ++i) {
    const auto& result = signature.results(i);
    outcome.results.push_back(
        TensorOf(result.dtype(), result.shape(),
                 result.has_aliases() ? run.parameters[result.aliases()] : run.results[static_cast<size_t>(i)]));
  }
  for (int i = 0; i < signature.parameters_size(); ++i) {
    const auto& parameter = signature.parameters(i);
    const Bytes& bytes = run.parameters[static_cast<size_t>(i)];
    if (parameter.written()) {
      HostTensor& written = outcome.written[parameter.slot()];
      written = TensorOf(parameter.dtype(), parameter.shape(), bytes);
      written.shape = arguments.at(parameter.slot()).shape;
    } else {
      KILN_CHECK(bytes.Copy() == arguments.at(parameter.slot()).bytes);  // nothing else was touched
    }
  }
  return outcome;
}

}  // namespace kiln::testing
