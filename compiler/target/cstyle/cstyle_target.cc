// The source target: text in a C-like language, for people and for builds.
#include <array>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/spec/program_spec.h"
#include "compiler/structure/code_text.h"
#include "compiler/target/cstyle/dialect.h"
#include "compiler/target/cstyle/kernel_text.h"
#include "compiler/target/cstyle/lower.h"
#include "compiler/target/cstyle/program.h"
#include "compiler/target/cstyle/reserved.h"
#include "compiler/target/gpu/architectures.h"
#include "compiler/target/target.h"

namespace kiln::compiler {
namespace {

// How many groups of how many items, for a dialect that has them: nothing where that is a variable's to say.
v1::Launch LaunchOfItems(const UOp* linear) {
  std::array<uint32_t, 3> groups = {1, 1, 1}, items = {1, 1, 1};
  for (const UOp* uop : linear->src()) {
    char kind = 0;
    int axis = 0;
    if (uop->op() != Op::SPECIAL || !ParseCoordinate(uop->arg_as<TextArg>().text, kind, axis)) continue;
    if (!uop->src(0)->IsConst() || uop->src(0)->bounds().max > std::numeric_limits<uint32_t>::max()) return {};
    (kind == 'l' ? items : groups)[static_cast<size_t>(axis)] = static_cast<uint32_t>(uop->src(0)->bounds().max);
  }
  v1::Launch launch;
  launch.mutable_groups()->Add(groups.begin(), groups.end());
  launch.mutable_items()->Add(items.begin(), items.end());
  return launch;
}

class SourceGenerator : public CodeGenerator {
 public:
  explicit SourceGenerator(const Dialect& dialect) : prelude_(dialect) {}

  Abilities abilities() const override { return {false, prelude_.dialect().HasWorkItems(), true}; }

  bool MayDefine(absl::string_view name) const override { return !IsReserved(name); }

  NativeOps native_ops() const override { return prelude_.dialect().native; }

  absl::StatusOr<UOp*> Select(Graph& graph, UOp* linear) override {
    return LowerForDialect(graph, linear, prelude_.dialect());
  }

  absl::StatusOr<UOp*> SelectValues(Graph& graph, UOp* linear) override {
    return SelectProgramValues(graph, linear, prelude_.dialect());
  }

  absl::StatusOr<UOp*> SelectListed(Graph& graph, UOp* linear, UOp* program) override {
    if (!SourceOf(program).empty() && !absl::StrContains(SourceOf(program), program->arg_as<KernelArg>().name)) {
      return graph.Locate(
          MakeError(v1::BAD_ARGUMENT, absl::StrCat("the SOURCE is to define ", program->arg_as<KernelArg>().name,
                                                   ", as its LINEAR is named")),
          program);
    }
    return LowerProgramForDialect(graph, linear, program, prelude_.dialect());
  }

  absl::Status AddKernel(UOp* linear, const std::string& symbol) override {
    const std::string& source = SourceOf(linear);
    absl::StrAppend(&kernels_, source.empty() ? KernelText(prelude_, linear, symbol) : absl::StrCat(source, "\n"));
    return absl::OkStatus();
  }

  absl::StatusOr<v1::Launch> LaunchOf(const UOp* linear) override {
    return prelude_.dialect().HasWorkItems() ? LaunchOfItems(linear) : v1::Launch();
  }

  std::vector<absl::string_view> languages() const override { return {"source"}; }
  std::string Source(absl::string_view) override { return prelude_.Text() + kernels_; }
  std::string Assembly() override { return ""; }
  absl::StatusOr<std::string> Object() override { return prelude_.Text() + kernels_; }

 private:
  Prelude prelude_;
  std::string kernels_;
};

absl::StatusOr<const Dialect*> Find(absl::string_view name) {
  const Dialect* dialect = FindDialect(name);
  if (dialect != nullptr) return dialect;
  std::string names;
  for (const Dialect* known : Dialects()) absl::StrAppend(&names, names.empty() ? "" : ", ", known->name);
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat("no source language \"", name, "\"; there are ", names,
                                                  ", and the assembly of the GPUs ", GpuArchitectureNames()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeSourceCodeGenerator(const v1::Target& target, const Options&) {
  KILN_ASSIGN_OR_RETURN(const Dialect* dialect, Find(target.arch()));
  return std::make_unique<SourceGenerator>(*dialect);
}

}  // namespace kiln::compiler
