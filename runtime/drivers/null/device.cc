#include "runtime/drivers/null/device.h"

#include <atomic>
#include <functional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "runtime/drivers/host/host_allocator.h"
#include "runtime/drivers/host/host_queue.h"
#include "runtime/drivers/host/host_scratch.h"

namespace kiln::runtime::null {
namespace {

// What modules tell their device.
struct Log {
  absl::Mutex mutex;
  std::vector<Launch> launches ABSL_GUARDED_BY(mutex);
  std::atomic<uint64_t> launch_count{0};
  std::atomic<uint64_t> modules{0};
};

struct Kernel {
  std::string symbol;
  uint32_t buffers = 0;
};

class NullModule final : public hal::Module {
 public:
  NullModule(std::vector<Kernel> kernels, Log& log) : kernels_(std::move(kernels)), log_(log) { ++log_.modules; }
  ~NullModule() override { --log_.modules; }

  absl::Status Launch(uint32_t index, void* const* buffers, const hal::LaunchControl& control) override {
    const Kernel& kernel = kernels_[index];
    ++log_.launch_count;
    absl::MutexLock lock(&log_.mutex);
    log_.launches.push_back({kernel.symbol, {buffers, buffers + kernel.buffers}, control.deadline});
    return absl::OkStatus();
  }

 private:
  const std::vector<Kernel> kernels_;
  Log& log_;
};

class NullDevice final : public Device {
 public:
  explicit NullDevice(const DeviceOptions& options)
      : name_(options.name),
        longest_run_(options.longest_run),
        on_load_(options.on_load),
        allocator_(host::MakeHostAllocator(this, options.memory_limit_bytes)),
        scratch_(host::Runners::kMax, host::HostScratch(allocator_.get())),
        queue_(
            this, /*inline_limit_ns=*/30'000, [this](size_t runner) { scratch_[runner].Release(); },
            [this](size_t runner) { scratch_[runner].ReleaseLarge(); }) {
    target_.set_kind(v1::Target::NULL_TARGET);
    target_.mutable_tuning()->set_vector_bytes(16);
    target_.mutable_tuning()->set_vector_registers(16);
    target_.mutable_tuning()->set_cores(1);
  }

  absl::string_view name() const override { return name_; }
  absl::string_view description() const override { return "a device that computes nothing"; }
  const v1::Target& target() const override { return target_; }
  hal::Allocator& allocator() override { return *allocator_; }
  hal::Queue& queue() override { return queue_; }
  absl::StatusOr<void*> Scratch(uint64_t bytes, const Account* account, MemoryDomain domain) override {
    return scratch_[queue_.runner()].Get(bytes, account, domain);
  }

  absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable) override {
    if (on_load_ != nullptr) KILN_RETURN_IF_ERROR(on_load_());
    std::vector<Kernel> kernels;
    for (const v1::Kernel& kernel : executable.kernels()) kernels.push_back({kernel.symbol(), 0});
    for (const v1::Step& step : executable.steps()) {
      kernels[step.kernel()].buffers = static_cast<uint32_t>(step.operands_size());
    }
    return std::make_unique<NullModule>(std::move(kernels), log_);
  }

  absl::Duration longest_run() const override { return longest_run_; }

  hal::DeviceStats stats() const override {
    hal::DeviceStats stats;
    stats.memory = allocator_->stats();
    stats.queue_depth = queue_.depth();
    stats.launches = log_.launch_count.load();
    stats.modules = log_.modules.load();
    return stats;
  }

  std::vector<Launch> TakeLaunches() override {
    absl::MutexLock lock(&log_.mutex);
    return std::exchange(log_.launches, {});
  }

 private:
  const std::string name_;
  const absl::Duration longest_run_;
  const std::function<absl::Status()> on_load_;
  v1::Target target_;
  Log log_;
  const std::unique_ptr<hal::Allocator> allocator_;
  std::vector<host::HostScratch> scratch_;  // of each of the queue's runners: what has paused keeps its own
  host::HostQueue queue_;                   // last, hence the first to go
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(DeviceOptions options) {
  return std::make_unique<NullDevice>(options);
}

}  // namespace kiln::runtime::null
