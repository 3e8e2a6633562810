#include "tests/support/engines/ptx_engine.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/compile.h"
#include "compiler/target/gpu/architectures.h"
#include "tests/support/executable_run.h"
#include "tests/support/ptx/tensor_map.h"

namespace kiln::testing {
namespace {

struct alignas(64) EncodedMap {
  char bytes[ptx::kTensorMapBytes] = {};
};

// As the driver of NVIDIA's cards does.
absl::Status Encode(const v1::TensorMap& map, absl::Span<const uint64_t> operands, EncodedMap& encoded) {
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
  ptx::LaunchLimits limits;
  limits.detect_global_races = detect_global_races_;
  const auto launch = [&](const KernelRun& run) -> absl::Status {
    const std::string& symbol = run.kernel.symbol();
    const v1::Launch& shape = run.kernel.launch();
    const ptx::Module::Entry* entry = module.Find(symbol);
    if (entry == nullptr) return absl::InternalError(absl::StrCat("no entry ", symbol));
    if (shape.static_shared_bytes() < entry->static_shared_bytes)
      return absl::InternalError(absl::StrCat(symbol, " declares more shared memory than its launch says"));
    std::vector<const void*> places;
    for (const uint64_t& value : run.arguments) places.push_back(&value);
    std::vector<EncodedMap> maps(static_cast<size_t>(shape.tensor_maps_size()));
    for (size_t n = 0; n < maps.size(); ++n) {
      KILN_RETURN_IF_ERROR(Encode(shape.tensor_maps(static_cast<int>(n)), run.arguments, maps[n]));
      places.push_back(maps[n].bytes);
    }
    std::vector<ptx::Range> memory;
    for (const OperandRange& range : run.memory) memory.push_back({range.begin, range.bytes, range.writable});
    return module.Launch(*entry, {run.groups, run.items, shape.dynamic_shared_bytes()}, places, memory, limits);
  };
  // The machine checks itself what is accessed; there, all memory is as aligned as a device's.
  return RunExecutable(executable, arguments, variables, GuardedBuffer::Side::kBegin, launch, beside_);
}

}  // namespace kiln::testing
