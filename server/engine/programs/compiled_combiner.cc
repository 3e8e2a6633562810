#include "server/engine/programs/compiled_combiner.h"

#include <limits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "server/engine/programs/combine_graph.h"

namespace kiln::server {
namespace {

using runtime::collective::Combination;
using runtime::collective::CombineKernel;

// Operands by the graph's slots: 0 is the number of elements.
using Slots = std::vector<uint32_t>;

absl::StatusOr<Slots> SlotsOf(const v1::Executable& executable) {
  if (executable.kernels_size() != 1 || executable.steps_size() != 1 || executable.arena_bytes() != 0 ||
      !executable.constants().empty() || executable.preparations_size() != 0) {
    return MakeError(v1::INTERNAL_FAULT, "a combination that is not one kernel");
  }
  Slots slots;
  for (const v1::Operand& operand : executable.steps(0).operands()) {
    const bool is_variable = operand.space() == v1::Operand::VARIABLE;
    if (!is_variable && operand.space() != v1::Operand::PARAMETER) {
      return MakeError(v1::INTERNAL_FAULT, "a combination with memory of its own");
    }
    const auto index = static_cast<int>(operand.index());
    slots.push_back(is_variable ? 0 : executable.signature().parameters(index).slot());
  }
  return slots;
}

class LoadedKernel final : public CombineKernel {
 public:
  LoadedKernel(std::unique_ptr<runtime::hal::Module> module, Slots slots)
      : module_(std::move(module)), slots_(std::move(slots)) {}

  absl::Status Launch(absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
                      uint64_t elements) override {
    if (elements > static_cast<uint64_t>(kMaxCombined)) {
      return TooLarge("elements", kMaxCombined, elements, absl::StrCat(elements, " elements to combine"));
    }
    absl::InlinedVector<void*, 32> operands;
    for (const uint32_t slot : slots_) {
      if (slot == 0) {
        operands.push_back(reinterpret_cast<void*>(elements));
      } else if (slot <= outputs.size()) {
        operands.push_back(outputs[slot - 1]);
      } else {
        operands.push_back(const_cast<void*>(inputs[slot - 1 - outputs.size()]));
      }
    }
    return module_->Launch(0, operands.data(), {});
  }

 private:
  const std::unique_ptr<runtime::hal::Module> module_;
  const Slots slots_;
};

}  // namespace

absl::StatusOr<CombineKernel*> CompiledCombiner::For(runtime::hal::Device& device, const Combination& what) {
  const KernelKey key = {&device, what};
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = kernels_.find(key); found != kernels_.end()) return found->second.get();
  }
  KILN_ASSIGN_OR_RETURN(const v1::Executable executable, Compiled(device.target(), what));
  KILN_ASSIGN_OR_RETURN(Slots slots, SlotsOf(executable));
  KILN_ASSIGN_OR_RETURN(auto module, device.LoadModule(executable));
  absl::MutexLock lock(&mutex_);
  auto& kernel = kernels_[key];
  // A device takes part in one collective at a time, so nobody else has loaded it meanwhile.
  if (kernel == nullptr) kernel = std::make_unique<LoadedKernel>(std::move(module), std::move(slots));
  return kernel.get();
}

absl::StatusOr<v1::Executable> CompiledCombiner::Compiled(const v1::Target& target, const Combination& what) {
  std::shared_ptr<Code> code;
  {
    absl::MutexLock lock(&mutex_);
    auto& known = codes_[{target.SerializeAsString(), what}];
    if (known == nullptr) known = std::make_shared<Code>();
    code = known;
  }
  absl::MutexLock lock(&code->mutex);
  if (!code->made) {
    compiler::Options options;
    options.limits.max_work = std::numeric_limits<uint64_t>::max();  // of as many elements as there may be
    options.limits.max_run_seconds = options.limits.max_work;
    options.limits.max_item_work = options.limits.max_work;
    auto compiled = compile_(CombineGraph(what, groups_), target, options, nullptr, {});
    if (compiled.ok()) {
      code->executable = std::get<v1::Executable>(*std::move(compiled));
    } else {
      code->executable = compiled.status();
    }
    code->made = true;
  }
  return code->executable;
}

}  // namespace kiln::server
