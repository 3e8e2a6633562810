#include "tests/support/fake_cuda/ptx_program.h"

#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/ptx/machine.h"

namespace kiln::testing {
namespace {

class PtxProgram final : public fake_gpu::Program {
 public:
  explicit PtxProgram(std::unique_ptr<ptx::Module> module) : module_(std::move(module)) {
    for (const ptx::Module::Entry* entry : module_->entries()) {
      Kernel& kernel = kernels_[entry->name];
      kernel.parameter_bytes = entry->parameter_bytes;
      kernel.static_shared_bytes = entry->static_shared_bytes;
      const uint32_t items = entry->max_items[0] * entry->max_items[1] * entry->max_items[2];
      if (items != 0) kernel.max_items = items;
    }
  }

  const Kernel* Find(const std::string& name) const override {
    const auto found = kernels_.find(name);
    return found == kernels_.end() ? nullptr : &found->second;
  }

  int Run(const std::string& name, const fake_gpu::Launch& launch, const std::vector<std::vector<char>>& parameters,
          const std::vector<fake_gpu::Range>& memory) const override {
    std::vector<const void*> values;
    for (const std::vector<char>& value : parameters) values.push_back(value.data());
    std::vector<ptx::Range> ranges;
    for (const fake_gpu::Range& range : memory) ranges.push_back({range.begin, range.bytes, /*writable=*/true});
    const absl::Status status = module_->Launch(
        *module_->Find(name), {launch.groups, launch.items, launch.dynamic_shared_bytes}, values, ranges);
    if (status.ok()) return fake_gpu::kSuccess;
    // A card would say less.
    std::fprintf(stderr, "fake card: %s\n", status.ToString().c_str());
    return absl::IsOutOfRange(status) ? fake_gpu::kIllegalAddress : fake_gpu::kLaunchFailed;
  }

 private:
  const std::unique_ptr<ptx::Module> module_;
  std::map<std::string, Kernel> kernels_;
};

}  // namespace

std::unique_ptr<fake_gpu::Program> LoadPtx(const std::string& text, std::string& fault) {
  auto module = ptx::Module::Parse(text);
  if (module.ok()) return std::make_unique<PtxProgram>(*std::move(module));
  fault = std::string(module.status().message());
  return nullptr;
}

}  // namespace kiln::testing
