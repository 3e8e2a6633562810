#include "compiler/target/llvm/custom_code.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/code_text.h"
#include "compiler/target/llvm/values.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

namespace kiln::compiler {
namespace {

absl::Status Bad(absl::string_view text) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat("its code is no LLVM IR that can stand here: ", text));
}

std::string TypeText(llvm::LLVMContext& context, DType dtype) {
  if (dtype == DType::kVoid) return "void";
  std::string text;
  llvm::raw_string_ostream stream(text);
  RegisterType(context, dtype)->print(stream);
  return text;
}

// The function's text: its types are ours, so that only the body can be wrong.
std::string FunctionText(llvm::LLVMContext& context, const UOp* uop, const std::string& name) {
  std::vector<std::string> names;
  std::string parameters;
  for (const UOp* source : uop->src()) {
    names.push_back(absl::StrCat("%kiln.a", names.size()));
    absl::StrAppend(&parameters, parameters.empty() ? "" : ", ", TypeText(context, source->dtype()), " ", names.back());
  }
  const std::string type = TypeText(context, uop->dtype());
  const std::string body = *FillCode(uop->arg_as<CodeArg>().text, names);
  const std::string signature = absl::StrCat("define ", type, " @", name, "(", parameters, ") alwaysinline {\n");
  if (uop->dtype() == DType::kVoid) return absl::StrCat(signature, body, "\nret void\n}\n");
  return absl::StrCat(signature, "%kiln.r = ", body, "\nret ", type, " %kiln.r\n}\n");
}

// Beside the one function, only declarations of what LLVM has built in.
bool IsOneBody(const llvm::Module& module, const std::string& name) {
  if (!module.global_empty() || !module.alias_empty() || !module.ifunc_empty() || !module.getModuleInlineAsm().empty())
    return false;
  for (const llvm::Function& function : module) {
    if (function.getName() != name && !function.isIntrinsic()) return false;
  }
  return module.getFunction(name) != nullptr;
}

}  // namespace

absl::StatusOr<llvm::Function*> AddCustomCode(llvm::Module& module, const UOp* uop) {
  // No kernel's symbol has a dot.
  std::string name = "kiln.custom0";
  for (size_t i = 1; module.getFunction(name) != nullptr; ++i) name = absl::StrCat("kiln.custom", i);
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> made =
      llvm::parseAssemblyString(FunctionText(module.getContext(), uop, name), diagnostic, module.getContext());
  if (made == nullptr) return Bad(diagnostic.getMessage().str());
  std::string fault;
  llvm::raw_string_ostream stream(fault);
  if (llvm::verifyModule(*made, &stream)) return Bad(fault);
  if (!IsOneBody(*made, name)) return Bad("it is more than the body of one function");
  made->setDataLayout(module.getDataLayout());
  made->setTargetTriple(module.getTargetTriple());
  if (llvm::Linker::linkModules(module, std::move(made))) return Bad("it cannot be linked");
  llvm::Function* function = module.getFunction(name);
  function->setLinkage(llvm::GlobalValue::InternalLinkage);
  return function;
}

absl::Status CheckCustomCode(const Graph& graph, UOp* program) {
  llvm::LLVMContext context;
  llvm::Module module("check", context);
  for (const UOp* uop : Toposort(program)) {
    if (uop->op() != Op::CUSTOM && uop->op() != Op::CUSTOMI) continue;
    if (absl::Status added = AddCustomCode(module, uop).status(); !added.ok()) return graph.Locate(added, uop);
  }
  return absl::OkStatus();
}

}  // namespace kiln::compiler
