#include "runtime/drivers/cpu/device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/cpu/linker.h"
#include "runtime/drivers/cpu/machine.h"
#include "runtime/drivers/cpu/module.h"
#include "runtime/drivers/cpu/probe_target.h"
#include "runtime/drivers/host/host_allocator.h"
#include "runtime/drivers/host/host_queue.h"
#include "runtime/drivers/host/host_scratch.h"
#include "runtime/drivers/host/map_pages.h"
#include "runtime/memory/caching_allocator.h"

namespace kiln::runtime::cpu {
namespace {

class CpuDevice final : public hal::Device {
 public:
  // `options` with every default filled in.
  CpuDevice(const DeviceOptions& options, v1::Target target, std::shared_ptr<Linker> linker)
      : name_(options.name),
        pool_(options.pool),
        watch_(options.watch),
        target_(std::move(target)),
        description_(absl::StrCat(DescribeCpu(pool_->threads()), options.place.empty() ? "" : ", ", options.place)),
        linker_(std::move(linker)),
        allocator_(MakeCachingAllocator(host::MakeHostAllocator(this, options.memory_limit_bytes, options.mappings),
                                        options.memory_cache_bytes,
                                        [](void* data, uint64_t bytes) {
                                          host::ClearPages(data, bytes);
                                          return absl::OkStatus();
                                        })),
        scratch_(host::Runners::kMax, host::HostScratch(allocator_.get())),
        queue_(
            this, options.inline_limit_ns, [this](size_t runner) { scratch_[runner].Release(); },
            [this](size_t runner) { scratch_[runner].ReleaseLarge(); }) {}

  absl::string_view name() const override { return name_; }
  absl::string_view description() const override { return description_; }
  const v1::Target& target() const override { return target_; }
  hal::Allocator& allocator() override { return *allocator_; }
  hal::Queue& queue() override { return queue_; }
  absl::StatusOr<void*> Scratch(uint64_t bytes, const Account* account, MemoryDomain domain) override {
    return scratch_[queue_.runner()].Get(bytes, account, domain);
  }
  absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable) override {
    return cpu::LoadModule(executable, *linker_, *pool_, *watch_, counters_);
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
  const std::string name_;
  const std::shared_ptr<WorkerPool> pool_;
  const std::shared_ptr<DeadlineWatch> watch_;
  const v1::Target target_;
  const std::string description_;
  const std::shared_ptr<Linker> linker_;
  ModuleCounters counters_;
  const std::unique_ptr<hal::Allocator> allocator_;
  std::vector<host::HostScratch> scratch_;  // of each of the queue's runners: what has paused keeps its own
  // Last, hence the first to go: its work uses all of the above.
  host::HostQueue queue_;
};

uint64_t DefaultMemoryLimit() { return UsableMemoryBytes() / 5 * 4; }

}  // namespace

absl::StatusOr<std::unique_ptr<hal::Device>> CreateDevice(DeviceOptions options) {
  if (options.pool == nullptr) {
    WorkerPool::Options pool;
    pool.threads = options.threads;
    options.pool = std::make_shared<WorkerPool>(pool);
  }
  if (options.watch == nullptr) options.watch = std::make_shared<DeadlineWatch>();
  if (options.memory_limit_bytes == 0) options.memory_limit_bytes = DefaultMemoryLimit();
  if (options.memory_cache_bytes == 0) options.memory_cache_bytes = options.memory_limit_bytes / 4;
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<Linker> linker, CreateLinker(options.profile_jit));
  KILN_ASSIGN_OR_RETURN(v1::Target target, HostTarget(options.pool->threads(), options.core));
  return std::make_unique<CpuDevice>(options, std::move(target), std::move(linker));
}

absl::StatusOr<std::vector<std::unique_ptr<hal::Device>>> CreateDevices(uint32_t count, DeviceOptions options) {
  // More loops at once than this have their submitter alone; a worker that looks
  // for work walks over all of them.
  constexpr uint32_t kMaxLoops = 16;
  WorkerPool::Options pool;
  pool.threads = options.threads;
  pool.loops = std::clamp(count, 1u, kMaxLoops);
  options.pool = std::make_shared<WorkerPool>(pool);
  options.watch = std::make_shared<DeadlineWatch>();
  options.mappings = std::make_shared<host::Mappings>();
  if (options.memory_limit_bytes == 0) options.memory_limit_bytes = DefaultMemoryLimit();
  options.memory_limit_bytes = std::max<uint64_t>(options.memory_limit_bytes / count, 1);
  options.memory_cache_bytes /= count;
  std::vector<std::unique_ptr<hal::Device>> devices;
  for (uint32_t i = 0; i < count; ++i) {
    options.name = absl::StrCat("CPU:", i);
    KILN_ASSIGN_OR_RETURN(devices.emplace_back(), CreateDevice(options));
  }
  return devices;
}

}  // namespace kiln::runtime::cpu
