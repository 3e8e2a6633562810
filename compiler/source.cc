#include "compiler/source.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "compiler/compile.h"
#include "compiler/target/gpu/architectures.h"

namespace kiln::compiler {
namespace {

std::string PlaceOf(const v1::Operand& operand) {
  switch (operand.space()) {
    case v1::Operand::PARAMETER: return absl::StrCat("parameters[", operand.index(), "]");
    case v1::Operand::RESULT: return absl::StrCat("results[", operand.index(), "]");
    case v1::Operand::VARIABLE: return absl::StrCat("variables[", operand.index(), "]");
    case v1::Operand::ARENA: return absl::StrCat("(void*)((char*)arena+", operand.offset(), ")");
    default: return absl::StrCat("(void*)(kiln_constants+", operand.offset(), ")");
  }
}

std::string ConstantsText(const std::string& bytes) {
  if (bytes.empty()) return "";
  std::vector<int> numbers;
  for (char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  return absl::StrCat("static const unsigned char kiln_constants[] __attribute__((aligned(64))) = {",
                      absl::StrJoin(numbers, ","), "};\n");
}

std::string EntryPoint(const v1::Executable& executable) {
  std::string text = ConstantsText(executable.constants());
  for (int i = 0; i < executable.signature().parameters_size(); ++i) {
    const auto& parameter = executable.signature().parameters(i);
    absl::StrAppend(&text, "// parameters[", i, "]: slot ", parameter.slot(), ", ", parameter.bytes(), " bytes\n");
  }
  for (int i = 0; i < executable.signature().results_size(); ++i) {
    const auto& result = executable.signature().results(i);
    absl::StrAppend(&text, "// results[", i, "]: ", result.bytes(), " bytes",
                    result.has_aliases() ? absl::StrCat(", those of parameters[", result.aliases(), "]") : "", "\n");
  }
  for (int i = 0; i < executable.signature().variables_size(); ++i) {
    const auto& variable = executable.signature().variables(i);
    absl::StrAppend(&text, "// variables[", i, "]: slot ", variable.slot(), ", from ", variable.min_value(), " to ",
                    variable.max_value(), "\n");
  }
  absl::StrAppend(
      &text, "// arena: ", executable.arena_bytes(), " bytes\n",
      "void kiln_run(void* const* parameters, void* const* results, void* arena, const long long* variables) {\n");
  for (const v1::Step& step : executable.steps()) {
    std::vector<std::string> operands;
    for (const v1::Operand& operand : step.operands()) operands.push_back(PlaceOf(operand));
    absl::StrAppend(&text, "  ", executable.kernels(static_cast<int>(step.kernel())).symbol(), "(",
                    absl::StrJoin(operands, ", "), ");\n");
  }
  return text + "}\n";
}

}  // namespace

v1::Target SourceTarget(absl::string_view dialect) {
  if (std::optional<v1::Target> gpu = GpuTarget(dialect); gpu.has_value()) return *std::move(gpu);
  v1::Target target;
  target.set_kind(v1::Target::C_SOURCE);
  target.set_arch(std::string(dialect));
  return target;
}

absl::StatusOr<std::string> RenderSource(const v1::Graph& graph, absl::string_view dialect, const Options& options) {
  KILN_ASSIGN_OR_RETURN(const v1::Executable executable, Compile(graph, SourceTarget(dialect), options));
  return executable.object();
}

std::string ProgramText(const v1::Executable& executable) {
  return absl::StrCat(executable.object(), EntryPoint(executable));
}

}  // namespace kiln::compiler
