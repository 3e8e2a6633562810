#include "tests/drivers/gpu_machine.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/drivers/cuda/devices.h"
#include "runtime/drivers/hip/devices.h"
#include "tests/drivers/fake_code_object.h"

namespace kiln::testing {
namespace {

constexpr char kPtx[] = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 4 k_param_0, .param .u64 .ptr .global .align 4 k_param_1)
.maxntid 32, 1, 1
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<6>;
  ld.param.b64 %rd1, [k_param_0];
  ld.param.b64 %rd2, [k_param_1];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.b32 %r2, [%rd4];
  add.s64 %rd5, %rd1, %rd3;
  st.global.b32 [%rd5], %r2;
  ret;
}
)";

// The same for AMD's.
constexpr char kIr[] = R"(
declare i32 @llvm.amdgcn.workitem.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) %to, ptr addrspace(1) %from) {
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %source = getelementptr float, ptr addrspace(1) %from, i32 %item
  %value = load float, ptr addrspace(1) %source
  %target = getelementptr float, ptr addrspace(1) %to, i32 %item
  store float %value, ptr addrspace(1) %target
  ret void
}
)";

// result 0 of 32 floats is parameter 0.
v1::Executable ProgramFor(v1::Target::Kind kind, const char* triple, const char* arch, std::string object) {
  v1::Executable executable;
  executable.mutable_target()->set_kind(kind);
  executable.mutable_target()->set_triple(triple);
  executable.mutable_target()->set_arch(arch);
  executable.set_object(std::move(object));
  v1::Kernel& kernel = *executable.add_kernels();
  kernel.set_symbol("k");
  kernel.set_name("copy 32");
  kernel.set_iterations(1);
  for (int axis = 0; axis < 3; ++axis) {
    kernel.mutable_launch()->add_groups(1);
    kernel.mutable_launch()->add_items(axis == 0 ? 32 : 1);
  }
  v1::Step& step = *executable.add_steps();
  v1::Operand& result = *step.add_operands();
  result.set_space(v1::Operand::RESULT);
  result.set_written(true);
  step.add_operands()->set_space(v1::Operand::PARAMETER);
  v1::Signature::Parameter& parameter = *executable.mutable_signature()->add_parameters();
  parameter.set_dtype(v1::FLOAT32);
  parameter.add_shape(32);
  parameter.set_bytes(128);
  v1::Signature::Result& type = *executable.mutable_signature()->add_results();
  type.set_dtype(v1::FLOAT32);
  type.add_shape(32);
  type.set_bytes(128);
  return executable;
}

class CudaMachine final : public GpuMachine {
 public:
  const char* kind() const override { return "CUDA"; }
  Fake& fake() override { return fake_; }
  runtime::gpu::Found Find(bool collectives) override {
    return runtime::cuda::FindDevices(
        {.library = fake_.path(), .collectives = collectives ? fake_.path() : "/no/libnccl.so.2"});
  }
  std::string Entry(const std::string& meaning) const override {
    if (meaning == "allocate") return "cuMemAlloc_v2";
    if (meaning == "load") return "cuModuleLoadDataEx";
    if (meaning == "launch") return "cuLaunchKernel";
    if (meaning == "fill") return "cuMemsetD8Async";
    if (meaning == "capture") return "cuStreamBeginCapture_v2";
    if (meaning == "graph") return "cuGraphLaunch";
    if (meaning == "peer copy") return "cuMemcpyPeerAsync";
    if (meaning == "reach") return "cuCtxEnablePeerAccess";
    return "cuStreamSynchronize";
  }
  v1::Executable Program() override { return ProgramFor(v1::Target::NVPTX, "nvptx64-nvidia-cuda", "sm_90a", kPtx); }

 private:
  Fake fake_{"fake_cuda/libfake_cuda.so"};
};

struct AmdArchitecture {
  const char* name;
  int gfx_target_version;
  int lanes;
};
constexpr AmdArchitecture kAmdArchitectures[] = {
    {"gfx90a", 90010, 64}, {"gfx942", 90402, 64}, {"gfx1100", 110000, 32}, {"gfx1200", 120000, 32}};

std::string TestFolder(const char* name) { return absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name); }

// What the kernel would list: a CPU, and three GPUs where the fake has them.
std::string WriteNodes(const AmdArchitecture& architecture) {
  const std::string nodes = TestFolder("nodes");
  for (int i = 0; i < 5; ++i) {
    const std::string folder = absl::StrCat(nodes, "/", i);
    std::filesystem::create_directories(folder + "/caches/0");
    std::ofstream properties(folder + "/properties");
    if (i == 0) {
      properties << "cpu_cores_count 8\nsimd_count 0\ngfx_target_version 0\n";
    } else {
      properties << "simd_count 1216\nsimd_per_cu 4\nwave_front_size " << architecture.lanes
                 << "\nlds_size_in_kb 64\ngfx_target_version " << architecture.gfx_target_version << "\nlocation_id "
                 << 256 * i << "\ndomain 0\n";
    }
    std::ofstream(folder + "/caches/0/properties") << "level 2\nsize 4096\n";
  }
  return nodes;
}

class HipMachine final : public GpuMachine {
 public:
  explicit HipMachine(const AmdArchitecture& architecture) : architecture_(architecture) {
    const std::string copy = code_folder() + "/copy";
    std::filesystem::create_directories(copy);
    std::ofstream(copy + "/object.o") << CodeObjectWith("k");
    std::ofstream(copy + "/llvm.ll") << kIr;
    fake_("ir " + code_folder());
  }

  const char* kind() const override { return "HIP"; }
  Fake& fake() override { return fake_; }
  runtime::gpu::Found Find(bool collectives) override {
    return runtime::hip::FindDevices(
        {.library = fake_.path(), .nodes = nodes_, .collectives = collectives ? fake_.path() : "/no/librccl.so.1"});
  }
  std::string Entry(const std::string& meaning) const override {
    if (meaning == "allocate") return "hipMalloc";
    if (meaning == "load") return "hipModuleLoadData";
    if (meaning == "launch") return "hipModuleLaunchKernel";
    if (meaning == "fill") return "hipMemsetD8Async";
    if (meaning == "capture") return "hipStreamBeginCapture";
    if (meaning == "graph") return "hipGraphLaunch";
    if (meaning == "peer copy") return "hipMemcpyPeerAsync";
    if (meaning == "reach") return "hipDeviceEnablePeerAccess";
    return "hipStreamSynchronize";
  }
  std::string code_folder() const override { return TestFolder("code"); }
  v1::Executable Program() override {
    return ProgramFor(v1::Target::AMDGPU, "amdgcn-amd-amdhsa", architecture_.name, CodeObjectWith("k"));
  }

 private:
  const AmdArchitecture& architecture_;
  Fake fake_{"fake_hip/libfake_hip.so"};
  const std::string nodes_ = WriteNodes(architecture_);
};

}  // namespace

std::unique_ptr<GpuMachine> MakeCudaMachine() { return std::make_unique<CudaMachine>(); }
std::unique_ptr<GpuMachine> MakeHipMachine() { return MakeHipMachineOf("gfx942"); }
std::unique_ptr<GpuMachine> MakeHipMachineOf(const std::string& architecture) {
  const auto* found = std::find_if(std::begin(kAmdArchitectures), std::end(kAmdArchitectures),
                                   [&](const AmdArchitecture& each) { return each.name == architecture; });
  KILN_CHECK(found != std::end(kAmdArchitectures));
  return std::make_unique<HipMachine>(*found);
}

}  // namespace kiln::testing
