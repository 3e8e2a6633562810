#include "runtime/testing/compile_ir.h"

#include <memory>

#include "base/check.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

namespace kiln::runtime::testing {

std::string CompileIr(absl::string_view ir) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::InitializeNativeTargetAsmParser();
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssemblyString(llvm::StringRef(ir.data(), ir.size()), diagnostic, context);
  if (module == nullptr) diagnostic.print("test", llvm::errs());
  KILN_CHECK(module != nullptr);

  const llvm::Triple triple(llvm::sys::getProcessTriple());
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  KILN_CHECK(target != nullptr);
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "", "", llvm::TargetOptions(), llvm::Reloc::PIC_, llvm::CodeModel::Small));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  // As what we compile: nothing of it is unwound, so it has no tables for that.
  for (llvm::Function& function : *module) function.setDoesNotThrow();

  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  KILN_CHECK(!machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile));
  passes.run(*module);
  return std::string(object.data(), object.size());
}

}  // namespace kiln::runtime::testing
