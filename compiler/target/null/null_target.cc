// The null target: the whole compiler with no machine behind it. Its programs
// are complete but for their code. A template for new targets.
#include "compiler/target/target.h"

namespace kiln::compiler {
namespace {

class NullCodeGenerator : public CodeGenerator {
 public:
  absl::Status AddKernel(UOp*, const std::string&) override { return absl::OkStatus(); }
  std::string Source(absl::string_view) override { return ""; }
  std::string Assembly() override { return ""; }
  absl::StatusOr<std::string> Object() override { return std::string(); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeNullCodeGenerator(const v1::Target&, const Options&) {
  return std::make_unique<NullCodeGenerator>();
}

}  // namespace kiln::compiler
