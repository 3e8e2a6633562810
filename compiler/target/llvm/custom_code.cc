#include "compiler/target/llvm/custom_code.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/structure/code_text.h"
#include "compiler/target/llvm/kernel_emitter.h"
#include "compiler/target/llvm/values/values.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/IRBuilder.h"
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
  const std::string signature =
      absl::StrCat("define ", type, " @", name, "(", parameters, ") alwaysinline nounwind {\n");
  if (uop->dtype() == DType::kVoid) return absl::StrCat(signature, body, "\nret void\n}\n");
  return absl::StrCat(signature, "%kiln.r = ", body, "\nret ", type, " %kiln.r\n}\n");
}

absl::StatusOr<std::unique_ptr<llvm::Module>> Parse(llvm::LLVMContext& context, const std::string& text) {
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> made = llvm::parseAssemblyString(text, diagnostic, context);
  if (made == nullptr) return Bad(diagnostic.getMessage().str());
  std::string fault;
  llvm::raw_string_ostream stream(fault);
  if (llvm::verifyModule(*made, &stream)) return Bad(fault);
  return made;
}

// The one function of `module`; beside it, only declarations of what LLVM has built in.
llvm::Function* DefinedIn(llvm::Module& module) {
  if (!module.global_empty() || !module.alias_empty() || !module.ifunc_empty() || !module.getModuleInlineAsm().empty())
    return nullptr;
  llvm::Function* defined = nullptr;
  for (llvm::Function& function : module) {
    if (function.isIntrinsic()) continue;
    if (function.isDeclaration() || defined != nullptr) return nullptr;
    defined = &function;
  }
  return defined;
}

absl::StatusOr<llvm::Function*> LinkFunction(llvm::Module& module, std::unique_ptr<llvm::Module> made,
                                             const std::string& name) {
  made->setDataLayout(module.getDataLayout());
  made->setTargetTriple(module.getTargetTriple());
  if (llvm::Linker::linkModules(module, std::move(made))) return Bad("it cannot be linked");
  llvm::Function* function = module.getFunction(name);
  function->setLinkage(llvm::GlobalValue::InternalLinkage);
  return function;
}

}  // namespace

absl::StatusOr<llvm::Function*> AddCustomCode(llvm::Module& module, const UOp* uop) {
  // No kernel's symbol has a dot.
  std::string name = "kiln.custom0";
  for (size_t i = 1; module.getFunction(name) != nullptr; ++i) name = absl::StrCat("kiln.custom", i);
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> made,
                        Parse(module.getContext(), FunctionText(module.getContext(), uop, name)));
  if (made->getFunction(name) == nullptr || DefinedIn(*made) == nullptr)
    return Bad("it is more than the body of one function");
  return LinkFunction(module, std::move(made), name);
}

absl::StatusOr<llvm::Function*> AddSource(llvm::Module& module, const std::string& text, const std::string& symbol) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> made, Parse(module.getContext(), text));
  llvm::Function* defined = DefinedIn(*made);
  if (defined == nullptr) return Bad("it is more, or less, than one function");
  const auto is_operand = [](const llvm::Argument& arg) {
    return arg.getType()->isPointerTy() || arg.getType()->isIntegerTy(64);
  };
  if (!defined->getReturnType()->isVoidTy() || defined->isVarArg() ||
      !std::all_of(defined->arg_begin(), defined->arg_end(), is_operand))
    return Bad("its function is to return void, and take a pointer for each parameter and an i64 for each variable");
  const std::string name = "kiln.source." + symbol;
  defined->setName(name);
  KILN_ASSIGN_OR_RETURN(llvm::Function * called, LinkFunction(module, std::move(made), name));
  called->addFnAttr(llvm::Attribute::AlwaysInline);

  // One of the launch's threads, that with the first iteration, does it all.
  llvm::Function* kernel = CpuAbi().Declare(module, nullptr, symbol);
  llvm::LLVMContext& context = module.getContext();
  llvm::BasicBlock* entry = llvm::BasicBlock::Create(context, "entry", kernel);
  llvm::BasicBlock* run = llvm::BasicBlock::Create(context, "run", kernel);
  llvm::BasicBlock* exit = llvm::BasicBlock::Create(context, "exit", kernel);
  llvm::IRBuilder<> builder(entry);
  builder.CreateCondBr(builder.CreateICmpEQ(kernel->getArg(1), builder.getInt64(0)), run, exit);
  builder.SetInsertPoint(run);
  std::vector<llvm::Value*> operands;
  for (const llvm::Argument& arg : called->args()) {
    llvm::Value* place = builder.CreateConstInBoundsGEP1_64(builder.getInt64Ty(), kernel->getArg(0), arg.getArgNo());
    operands.push_back(builder.CreateLoad(arg.getType(), place));
  }
  builder.CreateCall(called, operands);
  builder.CreateBr(exit);
  builder.SetInsertPoint(exit);
  builder.CreateRetVoid();
  return kernel;
}

absl::Status CheckCustomCode(const Graph& graph, UOp* program) {
  llvm::LLVMContext context;
  llvm::Module module("check", context);
  size_t slots = 0;
  for (const UOp* uop : Toposort(program)) {
    if (uop->op() == Op::PARAM) slots = std::max<size_t>(slots, uop->arg_as<BufferArg>().slot + 1);
    if (uop->op() != Op::CUSTOM && uop->op() != Op::CUSTOMI) continue;
    if (absl::Status added = AddCustomCode(module, uop).status(); !added.ok()) return graph.Locate(added, uop);
  }
  if (SourceOf(program).empty()) return absl::OkStatus();
  if (absl::Status added = AddSource(module, SourceOf(program), "kernel").status(); !added.ok())
    return graph.Locate(added, program);
  const size_t taken = module.getFunction("kiln.source.kernel")->arg_size();
  if (taken == slots) return absl::OkStatus();
  return graph.Locate(Bad(absl::StrCat("its function takes ", taken, " arguments, and its LINEAR has ", slots,
                                       " parameters and variables")),
                      program);
}

}  // namespace kiln::compiler
