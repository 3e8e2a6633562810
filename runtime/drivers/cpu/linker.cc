#include "runtime/drivers/cpu/linker.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Debugging/ELFDebugObjectPlugin.h"
#include "llvm/ExecutionEngine/Orc/Debugging/PerfSupportPlugin.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderPerf.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "runtime/drivers/cpu/object_check.h"
#include "runtime/drivers/cpu/symbols.h"

namespace kiln::runtime::cpu {
namespace {

namespace orc = llvm::orc;

absl::Status Fault(llvm::Error error, absl::string_view what) {
  return MakeError(v1::INTERNAL_FAULT, absl::StrCat(what, ": ", llvm::toString(std::move(error))));
}

orc::ExecutorSymbolDef Callable(void* address) {
  return {orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
}

class LlvmLinker final : public Linker, public std::enable_shared_from_this<LlvmLinker> {
 public:
  absl::Status Init(bool profile);
  absl::StatusOr<std::unique_ptr<LinkedObject>> Link(absl::string_view object,
                                                     absl::Span<const std::string> symbols) override;
  void Unload(orc::JITDylib& dylib);

 private:
  llvm::Error EnablePerf();
  llvm::Error EnableGdb();
  void AddPlugin(std::shared_ptr<orc::ObjectLinkingLayer::Plugin> plugin) {
    static_cast<orc::ObjectLinkingLayer&>(jit_->getObjLinkingLayer()).addPlugin(std::move(plugin));
  }

  std::unique_ptr<orc::LLJIT> jit_;
  orc::JITDylib* host_ = nullptr;  // the allowed symbols
  std::atomic<uint64_t> next_{0};  // names each object's dylib
};

class LlvmObject final : public LinkedObject {
 public:
  LlvmObject(std::shared_ptr<LlvmLinker> linker, orc::JITDylib& dylib) : linker_(std::move(linker)), dylib_(dylib) {}
  ~LlvmObject() override { linker_->Unload(dylib_); }
  absl::Span<void* const> addresses() const override { return addresses_; }
  std::vector<void*>& mutable_addresses() { return addresses_; }

 private:
  const std::shared_ptr<LlvmLinker> linker_;
  orc::JITDylib& dylib_;
  std::vector<void*> addresses_;
};

absl::Status LlvmLinker::Init(bool profile) {
  static std::once_flag once;
  // LLVM's own registry of targets, which LLJIT asks for the data layout.
  std::call_once(once, [] { llvm::InitializeNativeTarget(); });

  auto jit = orc::LLJITBuilder()
                 .setObjectLinkingLayerCreator(
                     [](orc::ExecutionSession& session) { return std::make_unique<orc::ObjectLinkingLayer>(session); })
                 .setPlatformSetUp(orc::setUpInactivePlatform)
                 .setLinkProcessSymbolsByDefault(false)
                 .create();
  if (!jit) return Fault(jit.takeError(), "starting the linker");
  jit_ = std::move(*jit);
  // What goes wrong comes back from lookup; LLVM need not print it as well.
  jit_->getExecutionSession().setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });

  host_ = &jit_->getExecutionSession().createBareJITDylib("host");
  orc::SymbolMap symbols;
  for (const HostSymbol& symbol : HostSymbols()) symbols[jit_->mangleAndIntern(symbol.name)] = Callable(symbol.address);
  if (llvm::Error error = host_->define(orc::absoluteSymbols(std::move(symbols)))) {
    return Fault(std::move(error), "defining the host's symbols");
  }
  if (profile) {
    if (llvm::Error error = EnablePerf()) return Fault(std::move(error), "registering with perf");
    if (llvm::Error error = EnableGdb()) return Fault(std::move(error), "registering with gdb");
  }
  return absl::OkStatus();
}

llvm::Error LlvmLinker::EnablePerf() {
  orc::ExecutionSession& session = jit_->getExecutionSession();
  orc::JITDylib& dylib = session.createBareJITDylib("perf");
  const std::pair<const char*, void*> hooks[] = {
      {"llvm_orc_registerJITLoaderPerfImpl", reinterpret_cast<void*>(&llvm_orc_registerJITLoaderPerfImpl)},
      {"llvm_orc_registerJITLoaderPerfStart", reinterpret_cast<void*>(&llvm_orc_registerJITLoaderPerfStart)},
      {"llvm_orc_registerJITLoaderPerfEnd", reinterpret_cast<void*>(&llvm_orc_registerJITLoaderPerfEnd)},
  };
  orc::SymbolMap symbols;
  for (const auto& [name, address] : hooks) symbols[jit_->mangleAndIntern(name)] = Callable(address);
  if (llvm::Error error = dylib.define(orc::absoluteSymbols(std::move(symbols)))) return error;
  auto plugin = orc::PerfSupportPlugin::Create(session.getExecutorProcessControl(), dylib, /*EmitDebugInfo=*/false,
                                               /*EmitUnwindInfo=*/false);
  if (!plugin) return plugin.takeError();
  AddPlugin(std::move(*plugin));
  return llvm::Error::success();
}

llvm::Error LlvmLinker::EnableGdb() {
  llvm::Error error = llvm::Error::success();
  auto plugin = std::make_shared<orc::ELFDebugObjectPlugin>(jit_->getExecutionSession(), /*RequireDebugSections=*/false,
                                                            /*AutoRegisterCode=*/true, error);
  if (!error) AddPlugin(std::move(plugin));
  return error;
}

absl::StatusOr<std::unique_ptr<LinkedObject>> LlvmLinker::Link(absl::string_view object,
                                                               absl::Span<const std::string> symbols) {
  const std::string name = absl::StrCat("program-", next_.fetch_add(1));
  // A copy, which also is aligned as the readers want it.
  auto bytes = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), name);
  KILN_RETURN_IF_ERROR(CheckObject({bytes->getBufferStart(), bytes->getBufferSize()}));
  orc::JITDylib& dylib = jit_->getExecutionSession().createBareJITDylib(name);
  auto linked = std::make_unique<LlvmObject>(shared_from_this(), dylib);  // unloads on every way out
  dylib.addToLinkOrder(*host_);
  if (llvm::Error error = jit_->addObjectFile(dylib, std::move(bytes))) {
    return Fault(std::move(error), "reading the object");
  }
  for (const std::string& symbol : symbols) {
    auto address = jit_->lookup(dylib, symbol);
    if (!address) return Fault(address.takeError(), absl::StrCat("linking kernel \"", symbol, "\""));
    linked->mutable_addresses().push_back(address->toPtr<void*>());
  }
  return linked;
}

void LlvmLinker::Unload(orc::JITDylib& dylib) {
  // Fails only for a dylib that is gone already.
  llvm::cantFail(jit_->getExecutionSession().removeJITDylib(dylib));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Linker>> CreateLinker(bool profile) {
  auto linker = std::make_shared<LlvmLinker>();
  KILN_RETURN_IF_ERROR(linker->Init(profile));
  return linker;
}

}  // namespace kiln::runtime::cpu
