// An executable loaded on one device: plain structs made once from the message, and all that
// its runs share. A program (program.h) is one of these, or tasks that run several.
#ifndef KILN_RUNTIME_EXEC_LOADED_EXECUTABLE_H_
#define KILN_RUNTIME_EXEC_LOADED_EXECUTABLE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kiln/v1/executable.pb.h"
#include "runtime/exec/estimate.h"
#include "runtime/hal/buffer.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"
#include "runtime/plan/sizes.h"

namespace kiln::runtime {

class ExecutableRun;
class ExecutableRunPool;

// Where a kernel's pointer, or variable, comes from. kArena and kConstants use the
// offset alone, the others the index alone.
struct PlanOperand {
  enum class Space : uint8_t { kParameter, kResult, kArena, kConstants, kVariable, kPrepared };
  Space space = Space::kParameter;
  uint32_t index = 0;
  uint64_t offset = 0;
};

using PlanStep = hal::LaunchStep;

// What a run finds beside the buffer of a parameter, or makes.
struct PlanPreparation {
  uint32_t parameter = 0;
  uint64_t bytes = 0;
  PlanStep step;
  std::array<char, 32> how = {};
};

struct PlanParameter {
  uint32_t slot = 0;
  PlanShape shape;
  // Of the greatest shape.
  uint64_t bytes = 0;
  // What its address must be a multiple of: the size of its dtype.
  uint32_t alignment = 1;
  bool written = false;
  // As in the signature.
  bool overwritten = false;
};

struct PlanResult {
  static constexpr uint32_t kFresh = ~uint32_t{0};
  PlanShape shape;
  // Of the greatest shape.
  uint64_t bytes = 0;
  // The parameter it is, or kFresh.
  uint32_t alias = kFresh;
};

struct Plan {
  std::vector<PlanStep> steps;
  std::vector<PlanPreparation> preparations;
  std::vector<PlanOperand> operands;  // of the steps, and then of the preparations
  std::vector<PlanParameter> parameters;
  std::vector<PlanResult> results;
  std::vector<PlanVariable> variables;
  std::vector<PlanCondition> conditions;
  std::vector<std::string> kernel_names;
  uint64_t arena_bytes = 0;
  uint64_t constants_bytes = 0;
  uint64_t code_bytes = 0;
};

// Immutable but for what its runs recycle. Safe from any thread; shared by the
// cache and by every run under way, unloaded with the last of them. Its device
// outlives it.
class LoadedExecutable {
 public:
  LoadedExecutable(hal::Device* device, Plan plan, v1::Signature signature, v1::Cost cost,
                   std::unique_ptr<hal::Module> module, std::shared_ptr<hal::Buffer> constants);
  ~LoadedExecutable();
  LoadedExecutable(const LoadedExecutable&) = delete;
  LoadedExecutable& operator=(const LoadedExecutable&) = delete;

  hal::Device& device() const { return *device_; }
  const v1::Signature& signature() const { return signature_; }
  const v1::Cost& cost() const { return cost_; }
  const Plan& plan() const { return plan_; }

  // How long a run is expected to take: from the cost at first, then from the
  // runs so far; a second at least where a run may be much longer than others (Cost.varies).
  uint64_t estimate_ns() const { return estimate_.ns(); }
  uint64_t least_estimate_ns() const { return estimate_.floor_ns(); }
  const Estimate& estimate() const { return estimate_; }
  // Runs that ended well, but for those as a part of a sequence.
  uint64_t runs() const { return estimate_.runs(); }
  // Bytes of code, constants and tables, roughly: its weight in a cache.
  uint64_t memory_bytes() const;

 private:
  friend class ExecutableRun;
  friend class Executor;
  friend class Sequence;

  hal::Device* const device_;
  const Plan plan_;
  const v1::Signature signature_;
  const v1::Cost cost_;
  const std::unique_ptr<hal::Module> module_;
  const std::shared_ptr<hal::Buffer> constants_;  // null if there are none
  const std::unique_ptr<ExecutableRunPool> pool_;
  Estimate estimate_;
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_LOADED_EXECUTABLE_H_
