// The list of targets. A new one is a row here and a folder beside this file.
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/target/target.h"

namespace kiln::compiler {
namespace {

struct Row {
  v1::Target::Kind kind;
  absl::StatusOr<std::unique_ptr<CodeGenerator>> (*make)(const v1::Target&, const Options&);
};

constexpr Row kTargets[] = {
    {v1::Target::NULL_TARGET, MakeNullCodeGenerator}, {v1::Target::CPU, MakeCpuCodeGenerator},
    {v1::Target::NVPTX, MakeGpuCodeGenerator},        {v1::Target::AMDGPU, MakeGpuCodeGenerator},
    {v1::Target::C_SOURCE, MakeSourceCodeGenerator},
};

constexpr bool EveryKindHasARow() {
  for (int kind = v1::Target::KIND_UNSPECIFIED + 1; kind <= v1::Target::Kind_MAX; ++kind) {
    bool found = false;
    for (const Row& row : kTargets) found |= row.kind == kind;
    if (!found) return false;
  }
  return true;
}
static_assert(EveryKindHasARow(), "a kind of target.proto has no row in targets.cc");

}  // namespace

absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeCodeGenerator(const v1::Target& target, const Options& options) {
  for (const Row& row : kTargets) {
    if (row.kind == target.kind()) return row.make(target, options);
  }
  return MakeError(v1::UNSUPPORTED_OP,
                   absl::StrCat("target ", v1::Target::Kind_Name(target.kind()), " is not built into this compiler"));
}

}  // namespace kiln::compiler
