#include "server/engine/programs/compile_fn.h"

#include <utility>

namespace kiln::server {
namespace {

// Hands on to another, which may be null, notes stages, and asks after each pass whether the program is still wanted.
class StopsBetweenPasses final : public compiler::CompileObserver {
 public:
  StopsBetweenPasses(compiler::CompileObserver* other, const CompileFor& whom)
      : other_(other), control_(whom.control), stages_(whom.stages) {}

  void OnPass(const compiler::PassRecord& record) override {
    if (other_ != nullptr) other_->OnPass(record);
  }
  void OnPart(compiler::CompilePart part, absl::Time begin, absl::Time end) override {
    if (stages_ != nullptr) stages_->Add(StageOf(part), begin, end);
  }
  bool WantsRecords() const override { return other_ != nullptr && other_->WantsRecords(); }
  std::vector<std::string> texts() const override {
    return other_ == nullptr ? std::vector<std::string>() : other_->texts();
  }
  bool WantsAssembly() const override { return other_ != nullptr && other_->WantsAssembly(); }
  bool WantsObject() const override { return other_ == nullptr || other_->WantsObject(); }
  bool StopAfter(absl::string_view pass) const override {
    return !control_.Check().ok() || (other_ != nullptr && other_->StopAfter(pass));
  }

 private:
  compiler::CompileObserver* const other_;
  const runtime::hal::LaunchControl control_;
  CompileStages* const stages_;
};

}  // namespace

CompileStage StageOf(compiler::CompilePart part) {
  switch (part) {
    case compiler::CompilePart::kImport: return CompileStage::kImport;
    case compiler::CompilePart::kSchedule: return CompileStage::kSchedule;
    case compiler::CompilePart::kKernels: return CompileStage::kKernels;
    case compiler::CompilePart::kCode: break;
  }
  return CompileStage::kCode;
}

CompileFn InProcess(CompileInProcessFn compile) {
  return [compile = std::move(compile)](const v1::Graph& graph, const v1::Target& target,
                                        const compiler::Options& options, compiler::CompileObserver* observer,
                                        const CompileFor& whom) -> absl::StatusOr<CompiledProgram> {
    StopsBetweenPasses stopping(observer, whom);
    auto program = compile(graph, target, options, &stopping);
    if (!program.ok() && program.status().code() == absl::StatusCode::kCancelled) {
      if (absl::Status wanted = whom.control.Check(); !wanted.ok()) return wanted;
    }
    return program;
  };
}

GradientFn GradientInProcess(GradientInProcessFn gradient) {
  return [gradient = std::move(gradient)](const v1::GradientRequest& request, const compiler::Limits& limits,
                                          const CompileFor&) { return gradient(request, limits); };
}

}  // namespace kiln::server
