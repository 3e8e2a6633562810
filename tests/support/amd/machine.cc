#include "tests/support/amd/machine.h"

#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "tests/support/amd/group.h"
#include "tests/support/amd/retarget.h"

namespace kiln::testing::amd {
namespace {

namespace orc = llvm::orc;

// Two bytes come back in a register of floats. The host's library may have no such function.
float AsReturned(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
float BfloatOfFloat(float value) { return AsReturned(FloatToBits(v1::BFLOAT16, value)); }
float BfloatOfDouble(double value) { return AsReturned(FloatToBits(v1::BFLOAT16, value)); }

absl::Status Fault(llvm::Error error, const char* doing) {
  return absl::InternalError(absl::StrCat(doing, ": ", llvm::toString(std::move(error))));
}

// A shared array, as near to the page behind it as its alignment lets it be.
class SharedMemory {
 public:
  explicit SharedMemory(const SharedArray& array) : bytes_(array.bytes) {
    const uint64_t pages = (array.bytes + kPage - 1) / kPage * kPage;
    mapped_ = pages + 2 * kPage;
    void* all = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    KILN_CHECK(all != MAP_FAILED);
    all_ = static_cast<char*>(all);
    KILN_CHECK(mprotect(all_ + kPage, pages, PROT_READ | PROT_WRITE) == 0);
    data_ = all_ + kPage + (pages - array.bytes) / array.alignment * array.alignment;
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { munmap(all_, mapped_); }
  char* data() const { return data_; }
  void Forget() const { std::memset(data_, 0xFF, bytes_); }

 private:
  static constexpr uint64_t kPage = 4096;
  const uint64_t bytes_;
  uint64_t mapped_;
  char *all_, *data_;
};

class HostModule final : public Module {
 public:
  explicit HostModule(uint32_t lanes) : lanes_(lanes) {}

  absl::Status Init(absl::string_view ir);

  std::map<std::string, KernelNeeds> Kernels() const override {
    std::map<std::string, KernelNeeds> all;
    for (const auto& [name, kernel] : kernels_) {
      KernelNeeds& needs = all[name];
      needs.parameters = kernel.parameters;
      needs.items = kernel.max_items;
      for (const SharedArray& array : kernel.shared) needs.shared_bytes += array.bytes;
    }
    return all;
  }

  absl::Status Launch(const std::string& name, const LaunchShape& shape,
                      absl::Span<const uint64_t> arguments) const override;

 private:
  const uint32_t lanes_;
  std::map<std::string, HostKernel> kernels_;
  std::map<std::string, SharedMemory> shared_;
  std::unique_ptr<orc::LLJIT> jit_;
};

absl::Status HostModule::Init(absl::string_view ir) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  auto host = orc::JITTargetMachineBuilder::detectHost();
  if (!host) return Fault(host.takeError(), "finding out what the host is");
  host->setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  // Their conversions to bfloat16 take small numbers for 0.
  host->addFeatures({"-avx512bf16", "-avxneconvert"});
  auto machine = host->createTargetMachine();
  if (!machine) return Fault(machine.takeError(), "making code for the host");

  auto context = std::make_unique<llvm::LLVMContext>();
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssemblyString(llvm::StringRef(ir.data(), ir.size()), diagnostic, *context);
  if (module == nullptr) return absl::InvalidArgumentError(diagnostic.getMessage().str());
  KILN_ASSIGN_OR_RETURN(kernels_, RetargetToHost(*module, **machine));

  auto jit = orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(*host)).create();
  if (!jit) return Fault(jit.takeError(), "starting the linker");
  jit_ = std::move(*jit);
  orc::SymbolMap symbols;
  const auto define = [&](const std::string& name, const void* address) {
    symbols[jit_->mangleAndIntern(name)] = {orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
  };
  define("kiln_amd_coordinate", reinterpret_cast<const void*>(&kiln_amd_coordinate));
  define("kiln_amd_barrier", reinterpret_cast<const void*>(&kiln_amd_barrier));
  define("kiln_amd_wave", reinterpret_cast<const void*>(&kiln_amd_wave));
  define("__truncsfbf2", reinterpret_cast<const void*>(&BfloatOfFloat));
  define("__truncdfbf2", reinterpret_cast<const void*>(&BfloatOfDouble));
  for (const auto& [name, kernel] : kernels_) {
    for (const SharedArray& array : kernel.shared) {
      const auto [place, fresh] = shared_.try_emplace(array.symbol, array);
      if (fresh) define(array.symbol, place->second.data());
    }
  }
  if (llvm::Error error = jit_->getMainJITDylib().define(orc::absoluteSymbols(std::move(symbols))))
    return Fault(std::move(error), "defining the host's symbols");
  if (llvm::Error error = jit_->addIRModule(orc::ThreadSafeModule(std::move(module), std::move(context))))
    return Fault(std::move(error), "adding the module");
  return absl::OkStatus();
}

absl::Status HostModule::Launch(const std::string& name, const LaunchShape& shape,
                                absl::Span<const uint64_t> arguments) const {
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) return absl::NotFoundError(absl::StrCat("no kernel ", name));
  const HostKernel& kernel = found->second;
  if (kernel.parameters != arguments.size())
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", kernel.parameters, " parameters and gets ", arguments.size()));
  auto entry = jit_->lookup(kernel.entry);
  if (!entry) return Fault(entry.takeError(), "compiling for the host");
  auto* run = entry->toPtr<void (*)(const uint64_t*)>();
  Group group(shape.items, lanes_, kernel.meets, [&] { run(arguments.data()); });
  for (uint32_t z = 0; z < shape.groups[2]; ++z) {
    for (uint32_t y = 0; y < shape.groups[1]; ++y) {
      for (uint32_t x = 0; x < shape.groups[0]; ++x) {
        for (const SharedArray& array : kernel.shared) shared_.at(array.symbol).Forget();
        const absl::Status status = group.Run({x, y, z});
        if (!status.ok()) return absl::Status(status.code(), absl::StrCat("kernel ", name, ", ", status.message()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Module>> Module::Load(absl::string_view ir, uint32_t lanes) {
  auto module = std::make_unique<HostModule>(lanes);
  KILN_RETURN_IF_ERROR(module->Init(ir));
  return module;
}

}  // namespace kiln::testing::amd
