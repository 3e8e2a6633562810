#include "tests/support/ptx_engine.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/compile.h"
#include "compiler/target/gpu/architectures.h"
#include "tests/support/ptx/tensor_map.h"

namespace kiln::testing {
namespace {

using compiler::HostTensor;

// At least as aligned as any device's memory is.
class Bytes {
 public:
  explicit Bytes(uint64_t bytes) : bytes_(bytes), owner_(new char[bytes + kAlign]) {
    const uint64_t address = reinterpret_cast<uint64_t>(owner_.get());
    data_ = owner_.get() + (kAlign - address % kAlign) % kAlign;
    std::memset(data_, 0xA5, bytes);
  }
  Bytes(uint64_t bytes, const std::string& content) : Bytes(bytes) {
    KILN_CHECK(content.size() == bytes);
    std::memcpy(data_, content.data(), bytes);
  }
  char* data() const { return data_; }
  uint64_t size() const { return bytes_; }
  std::string Copy() const { return std::string(data_, bytes_); }

 private:
  static constexpr uint64_t kAlign = 256;
  uint64_t bytes_;
  std::unique_ptr<char[]> owner_;
  char* data_;
};

HostTensor TensorOf(v1::DType dtype, const google::protobuf::RepeatedField<int64_t>& shape, const Bytes& bytes) {
  HostTensor tensor;
  tensor.dtype = compiler::FromWire(dtype);
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.bytes = bytes.Copy();
  return tensor;
}

struct alignas(64) EncodedMap {
  char bytes[ptx::kTensorMapBytes] = {};
};

// As the driver of NVIDIA's cards does.
absl::Status Encode(const v1::TensorMap& map, const std::vector<uint64_t>& operands, EncodedMap& encoded) {
  const uint64_t address = operands.at(map.operand());
  if (address % 16 != 0) return absl::OkStatus();
  ptx::TensorMap tensor;
  tensor.address = address + map.offset_bytes();
  tensor.element_bytes = static_cast<uint32_t>(compiler::ItemSize(compiler::FromWire(map.dtype())));
  tensor.rank = static_cast<uint32_t>(map.sizes_size());
  tensor.swizzle_bytes = map.swizzle_bytes();
  std::copy(map.sizes().begin(), map.sizes().end(), tensor.sizes.begin());
  std::copy(map.strides_bytes().begin(), map.strides_bytes().end(), tensor.strides.begin());
  std::copy(map.box().begin(), map.box().end(), tensor.box.begin());
  return ptx::EncodeTensorMap(tensor, encoded.bytes) ? absl::OkStatus()
                                                     : absl::InternalError("a tensor map that the driver refuses");
}

// One run of an executable.
struct Run {
  const v1::Executable& executable;
  const ptx::Module& module;
  std::vector<Bytes> parameters, results, prepared;
  std::vector<int64_t> variables;
  Bytes arena, constants;
  ptx::LaunchLimits limits;

  // Where an operand is, and how much of it a kernel may touch.
  ptx::Range Place(const v1::Operand& operand) const {
    const auto from = [&](const Bytes& bytes, uint64_t offset) {
      return ptx::Range{reinterpret_cast<uint64_t>(bytes.data()) + offset, bytes.size() - offset, operand.written()};
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

  absl::Status Launch(const v1::Step& step) const {
    const v1::Kernel& kernel = executable.kernels(static_cast<int>(step.kernel()));
    const ptx::Module::Entry* entry = module.Find(kernel.symbol());
    if (entry == nullptr) return absl::InternalError(absl::StrCat("no entry ", kernel.symbol()));
    if (kernel.launch().groups_size() != 3 || kernel.launch().items_size() != 3)
      return absl::InternalError(absl::StrCat(kernel.symbol(), " has no launch"));
    ptx::LaunchShape shape;
    for (int axis = 0; axis < 3; ++axis) {
      shape.groups[static_cast<size_t>(axis)] = kernel.launch().groups(axis);
      shape.items[static_cast<size_t>(axis)] = kernel.launch().items(axis);
    }
    shape.dynamic_shared_bytes = kernel.launch().dynamic_shared_bytes();
    if (kernel.launch().static_shared_bytes() < entry->static_shared_bytes)
      return absl::InternalError(absl::StrCat(kernel.symbol(), " declares more shared memory than its launch says"));
    std::vector<uint64_t> values;
    std::vector<ptx::Range> memory;
    for (const v1::Operand& operand : step.operands()) {
      if (operand.space() == v1::Operand::VARIABLE) {
        values.push_back(static_cast<uint64_t>(variables[operand.index()]));
      } else {
        memory.push_back(Place(operand));
        values.push_back(memory.back().begin);
      }
    }
    std::vector<const void*> places;
    for (const uint64_t& value : values) places.push_back(&value);
    std::vector<EncodedMap> maps(static_cast<size_t>(kernel.launch().tensor_maps_size()));
    for (size_t n = 0; n < maps.size(); ++n) {
      KILN_RETURN_IF_ERROR(Encode(kernel.launch().tensor_maps(static_cast<int>(n)), values, maps[n]));
      places.push_back(maps[n].bytes);
    }
    return module.Launch(*entry, shape, places, memory, limits);
  }
};

}  // namespace

absl::StatusOr<compiler::InterpResult> PtxEngine::Run(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                                      const compiler::Options& options,
                                                      const compiler::VariableValues& variables) {
  const auto target = compiler::GpuTarget(architecture_);
  KILN_CHECK(target.has_value());
  KILN_ASSIGN_OR_RETURN(const v1::Executable executable, compiler::Compile(graph, *target, options));
  return Run(executable, arguments, variables);
}

absl::StatusOr<compiler::InterpResult> PtxEngine::Run(const v1::Executable& executable,
                                                      const compiler::HostTensors& arguments,
                                                      const compiler::VariableValues& variables) {
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<ptx::Module> module, ptx::Module::Parse(executable.object()));
  return Run(executable, *module, arguments, variables);
}

absl::StatusOr<compiler::InterpResult> PtxEngine::Run(const v1::Executable& executable, const ptx::Module& module,
                                                      const compiler::HostTensors& arguments,
                                                      const compiler::VariableValues& variables) {
  const v1::Signature& signature = executable.signature();
  struct Run run = {executable,
                    module,
                    {},
                    {},
                    {},
                    {},
                    Bytes(executable.arena_bytes()),
                    Bytes(executable.constants().size(), executable.constants())};
  run.limits.detect_global_races = detect_global_races_;
  for (const auto& parameter : signature.parameters()) {
    const std::string& bytes = arguments.at(parameter.slot()).bytes;
    run.parameters.emplace_back(bytes.size(), bytes);
  }
  for (const auto& result : signature.results()) run.results.emplace_back(result.bytes());
  for (const auto& preparation : executable.preparations()) run.prepared.emplace_back(preparation.bytes());
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
