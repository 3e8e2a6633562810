#include "server/engine/programs/compile_fn.h"

#include <utility>

namespace kiln::server {
namespace {

// Hands on to another, which may be null, and asks after each pass whether the program is still wanted.
class StopsBetweenPasses final : public compiler::CompileObserver {
 public:
  StopsBetweenPasses(compiler::CompileObserver* other, const runtime::hal::LaunchControl& control)
      : other_(other), control_(control) {}

  void OnPass(const compiler::PassRecord& record) override {
    if (other_ != nullptr) other_->OnPass(record);
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
};

}  // namespace

CompileFn InProcess(CompileInProcessFn compile) {
  return [compile = std::move(compile)](const v1::Graph& graph, const v1::Target& target,
                                        const compiler::Options& options, compiler::CompileObserver* observer,
                                        const CompileFor& whom) -> absl::StatusOr<CompiledProgram> {
    StopsBetweenPasses stopping(observer, whom.control);
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
