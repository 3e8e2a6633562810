#include "server/executors/device.h"

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/cluster/packing.h"
#include "runtime/drivers/host/host_queue.h"
#include "runtime/drivers/host/host_scratch.h"
#include "runtime/drivers/remote/range_allocator.h"
#include "runtime/memory/caching_allocator.h"

namespace kiln::server {
namespace {

namespace hal = runtime::hal;
using runtime::cluster::Packer;

struct Counters {
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> modules{0};
};

bool IsLost(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() && detail->code() == v1::EXECUTOR_LOST;
}

// Keeps what it was made of, for the next executor.
class ExecutorModule final : public hal::Module {
 public:
  ExecutorModule(TenantExecutor* home, uint32_t device, const v1::Executable& executable, Counters& counters)
      : home_(home), device_(device), counters_(counters), operands_(executable.kernels_size()) {
    const auto note = [this](const v1::Step& step) {
      operands_[step.kernel()] = static_cast<uint32_t>(step.operands_size());
    };
    for (const v1::Preparation& preparation : executable.preparations()) note(preparation.step());
    for (const v1::Step& step : executable.steps()) note(step);
    v1::Executable code;
    *code.mutable_kernels() = executable.kernels();
    code.set_object(executable.object());
    code_ = code.SerializeAsString();
    counters_.modules.fetch_add(1, std::memory_order_relaxed);
  }
  ~ExecutorModule() override {
    if (const auto process = home_->Find(loaded_in_); process != nullptr) process->Unload(name_);
    counters_.modules.fetch_sub(1, std::memory_order_relaxed);
  }

  // Makes sure that `process` has it, if `control` still wants it. A load that has begun is not stopped: it would end
  // the process.
  absl::Status LoadInto(ExecutorProcess& process, const hal::LaunchControl& control) {
    if (process.number() == loaded_in_) return absl::OkStatus();
    KILN_RETURN_IF_ERROR(control.Check());
    absl::Status loaded = process.Load(device_, name_, code_);
    if (IsLost(loaded)) home_->Lost(process, loaded);
    if (loaded.ok()) loaded_in_ = process.number();
    return loaded;
  }

  // All of them, which are of modules of one device, by one message.
  static absl::Status LaunchEach(absl::Span<const hal::Launch> launches, void* const* operands,
                                 const hal::LaunchControl& control, uint32_t& launched) {
    if (launches.empty()) return absl::OkStatus();
    KILN_RETURN_IF_ERROR(control.Check());  // what has been stopped is not sent
    ExecutorModule& first = Of(launches[0]);
    KILN_ASSIGN_OR_RETURN(const auto process, first.home_->Process());
    const auto count = static_cast<uint32_t>(launches.size());
    Packer message;
    message.Number(count);
    for (const hal::Launch& launch : launches) {
      ExecutorModule& module = Of(launch);
      KILN_RETURN_IF_ERROR(module.LoadInto(*process, control));
      message.Number(module.name_).Number(launch.kernel).Number(module.operands_[launch.kernel]);
      for (uint32_t i = 0; i < module.operands_[launch.kernel]; ++i) message.Number(operands[launch.first_operand + i]);
    }
    uint32_t ran = 0;
    absl::Status status = process->Launch(first.device_, message.Take(), count, control, ran);
    if (IsLost(status)) first.home_->Lost(*process, status);
    launched += ran;
    first.counters_.launches.fetch_add(ran, std::memory_order_relaxed);
    return status;
  }

  absl::Status Launch(uint32_t kernel, void* const* operands, const hal::LaunchControl& control) override {
    const hal::Launch launch = {this, kernel, 0};
    uint32_t launched = 0;
    return LaunchEach({&launch, 1}, operands, control, launched);
  }

  absl::Status LaunchAll(absl::Span<const hal::LaunchStep> steps, void* const* operands,
                         const hal::LaunchControl& control, uint32_t& launched) override {
    std::vector<hal::Launch> launches;
    for (const hal::LaunchStep& step : steps) launches.push_back({this, step.kernel, step.first_operand});
    return LaunchEach(launches, operands, control, launched);
  }

 private:
  static ExecutorModule& Of(const hal::Launch& launch) { return static_cast<ExecutorModule&>(*launch.module); }

  // No address: an executor need not know where the server keeps what.
  static inline std::atomic<uint64_t> last_name_{0};

  TenantExecutor* const home_;
  const uint32_t device_;
  const uint64_t name_ = last_name_.fetch_add(1, std::memory_order_relaxed) + 1;
  Counters& counters_;
  std::vector<uint32_t> operands_;  // how many each kernel takes
  std::string code_;
  // Launches, and the first load before them, come one after the other.
  uint64_t loaded_in_ = 0;
};

class ExecutorLaunchList final : public hal::LaunchList {
 public:
  explicit ExecutorLaunchList(absl::Span<const hal::Launch> launches) : launches_(launches) {}
  absl::Status Run(void* const* operands, const hal::LaunchControl& control, uint32_t& launched) override {
    return ExecutorModule::LaunchEach(launches_, operands, control, launched);
  }

 private:
  const absl::Span<const hal::Launch> launches_;
};

// What it takes counts on the device that it is like, too, so that the limit and the guarantees there hold for all that
// there is on both.
class CountedAllocator final : public hal::Allocator {
 public:
  CountedAllocator(std::unique_ptr<hal::Allocator> inner, hal::Allocator* counts)
      : inner_(std::move(inner)), counts_(counts) {}

  absl::StatusOr<std::shared_ptr<hal::Buffer>> Allocate(uint64_t bytes, hal::MemoryUse use,
                                                        MemoryDomain domain) override {
    struct Counted {
      std::shared_ptr<hal::Buffer> stands;  // the last to go
      std::shared_ptr<hal::Buffer> buffer;
    };
    auto counted = std::make_shared<Counted>();
    KILN_ASSIGN_OR_RETURN(counted->stands,
                          counts_->guarantees().Allocate(nullptr, *counts_, bytes, hal::MemoryUse::kElsewhere));
    KILN_ASSIGN_OR_RETURN(counted->buffer, inner_->Allocate(bytes, use, domain));
    hal::Buffer* const buffer = counted->buffer.get();
    return std::shared_ptr<hal::Buffer>(std::move(counted), buffer);
  }
  void Trim() override { inner_->Trim(); }
  hal::AllocatorStats stats() const override { return inner_->stats(); }

 private:
  const std::unique_ptr<hal::Allocator> inner_;
  hal::Allocator* const counts_;
};

class ExecutorDevice final : public hal::Device {
 public:
  ExecutorDevice(TenantExecutor* home, uint32_t number, const DeviceModel& model, uint64_t begin, uint64_t reach,
                 absl::Duration longest_run)
      : home_(home),
        number_(number),
        name_(model.name),
        description_(absl::StrCat(model.description, ", in a process of its own")),
        target_(model.target),
        longest_run_(longest_run),
        allocator_(runtime::MakeCachingAllocator(
            std::make_unique<CountedAllocator>(runtime::remote::MakeRangeAllocator(
                                                   this, {begin, reach, model.limit_bytes, /*host_sees=*/true},
                                                   [](uint64_t address, uint64_t bytes, std::function<void()> done) {
                                                     Arena::Clear(address, bytes);
                                                     if (done != nullptr) done();
                                                   },
                                                   [home] { return home->arena().status(); }),
                                               model.counts),
            model.limit_bytes / 4,
            [](void* data, uint64_t bytes) {
              Arena::Clear(reinterpret_cast<uint64_t>(data), bytes);
              return absl::OkStatus();
            })),
        scratch_(allocator_.get()),
        // Nothing runs on the thread that submits it: an executor may have to be waited for.
        queue_(this, /*inline_limit_ns=*/0, /*done=*/nullptr, [this](size_t) { scratch_.ReleaseLarge(); }) {}

  absl::string_view name() const override { return name_; }
  absl::string_view description() const override { return description_; }
  const v1::Target& target() const override { return target_; }
  hal::Allocator& allocator() override { return *allocator_; }
  hal::Queue& queue() override { return queue_; }
  absl::StatusOr<void*> Scratch(uint64_t bytes, const Account* account, MemoryDomain domain) override {
    return scratch_.Get(bytes, account, domain);
  }

  absl::Duration longest_run() const override { return longest_run_; }

  void GiveBackMemory() {
    allocator_->Trim();
    // The run under way has it.
    queue_.Submit(
        [this] {
          scratch_.Release();
          allocator_->Trim();
        },
        0);
  }

  absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable) override {
    auto module = std::make_unique<ExecutorModule>(home_, number_, executable, counters_);
    // Now, since who loads wants to know whether it can be.
    KILN_ASSIGN_OR_RETURN(const auto process, home_->Process());
    KILN_RETURN_IF_ERROR(module->LoadInto(*process, {}));
    return module;
  }
  std::unique_ptr<hal::LaunchList> MakeLaunchList(absl::Span<const hal::Launch> launches) override {
    return std::make_unique<ExecutorLaunchList>(launches);
  }

  hal::DeviceStats stats() const override {
    hal::DeviceStats stats;
    stats.memory = allocator_->stats();
    stats.queue_depth = queue_.depth();
    stats.launches = counters_.launches.load(std::memory_order_relaxed);
    stats.modules = counters_.modules.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  TenantExecutor* const home_;
  const uint32_t number_;
  const std::string name_;
  const std::string description_;
  const v1::Target target_;
  const absl::Duration longest_run_;
  Counters counters_;
  const std::unique_ptr<hal::Allocator> allocator_;
  runtime::host::HostScratch scratch_;
  // Last, hence the first to go: its work uses all of the above.
  runtime::host::HostQueue queue_;
};

}  // namespace

std::unique_ptr<hal::Device> MakeExecutorDevice(TenantExecutor* home, uint32_t number, const DeviceModel& model,
                                                uint64_t begin, uint64_t reach, absl::Duration longest_run) {
  return std::make_unique<ExecutorDevice>(home, number, model, begin, reach, longest_run);
}

void GiveBack(hal::Device& device) { static_cast<ExecutorDevice&>(device).GiveBackMemory(); }

}  // namespace kiln::server
