#include "runtime/drivers/remote/device.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/drivers/host/host_scratch.h"
#include "runtime/drivers/remote/queue.h"
#include "runtime/drivers/remote/range_allocator.h"
#include "runtime/hal/remote.h"
#include "runtime/memory/caching_allocator.h"

namespace kiln::runtime::remote {
namespace {

struct Counters {
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> modules{0};
};

// A list of launches is one command.
class RemoteModule final : public hal::Module {
 public:
  // `operands`: how many each kernel takes.
  RemoteModule(const Line& line, uint64_t module, std::vector<uint32_t> operands, Counters& counters)
      : line_(line), module_(module), operands_(std::move(operands)), counters_(counters) {
    counters_.modules.fetch_add(1, std::memory_order_relaxed);
  }
  ~RemoteModule() override {
    counters_.modules.fetch_sub(1, std::memory_order_relaxed);
    line_.board->Forget(
        line_.board->Begin(line_.rank, line_.shared_lane, Command::kUnload, cluster::Packer().Number(module_).Take()));
  }

  absl::Status Launch(uint32_t kernel, void* const* operands, const hal::LaunchControl& control) override {
    const hal::LaunchStep step = {kernel, 0, operands_[kernel]};
    uint32_t launched = 0;
    return LaunchAll({&step, 1}, operands, control, launched);
  }

  absl::Status LaunchAll(absl::Span<const hal::LaunchStep> steps, void* const* operands,
                         const hal::LaunchControl& control, uint32_t& launched) override {
    if (steps.empty()) return absl::OkStatus();
    KILN_RETURN_IF_ERROR(control.Check());  // what has been stopped is not sent
    int64_t left_ns = 0;
    if (control.deadline != absl::InfiniteFuture()) {
      left_ns = std::max<int64_t>(1, absl::ToInt64Nanoseconds(control.deadline - SteadyNow()));
    }
    cluster::Packer rest;
    rest.Number(module_).Number(left_ns).Number<uint32_t>(steps.size());
    for (const hal::LaunchStep& step : steps) {
      rest.Number(step.kernel).Number(step.operand_count);
      for (uint32_t i = 0; i < step.operand_count; ++i) rest.Number(operands[step.first_operand + i]);
    }
    std::string answer;
    absl::Status status = line_.Ask(Command::kLaunch, rest.Take(), &answer, control);
    // 0 if it does not say.
    const uint32_t ran = std::min<uint32_t>(cluster::Unpacker(answer).Number<uint32_t>(), steps.size());
    launched += ran;
    counters_.launches.fetch_add(ran, std::memory_order_relaxed);
    return status;
  }

 private:
  const Line& line_;
  const uint64_t module_;
  const std::vector<uint32_t> operands_;
  Counters& counters_;
};

class RemoteDevice final : public hal::Device, public hal::Remote {
 public:
  RemoteDevice(Line line, const Hello::Device& offer, std::string description)
      : line_(std::move(line)),
        description_(std::move(description)),
        target_(offer.target),
        allocator_(MakeCachingAllocator(
            MakeRangeAllocator(
                this, {offer.base, offer.reach, offer.limit_bytes},
                [this](uint64_t address, uint64_t bytes, std::function<void()> done) {
                  Clear(address, bytes, std::move(done));
                },
                [this] { return line_.Health(); }),
            offer.limit_bytes / 4,
            [this](void* data, uint64_t bytes) { return ClearNow(reinterpret_cast<uint64_t>(data), bytes); })),
        scratch_(allocator_.get()),
        queue_(std::make_unique<RemoteQueue>(this, &line_)) {}
  ~RemoteDevice() override {
    // Work that is ending frees memory, and looks for the queue to have it cleared.
    queue_->Drain(absl::InfiniteFuture()).IgnoreError();
    // What is freed from now on need not be cleared.
    auto queue = std::move(queue_);
    queue.reset();
  }

  absl::string_view name() const override { return line_.name; }
  absl::string_view description() const override { return description_; }
  const v1::Target& target() const override { return target_; }
  hal::Allocator& allocator() override { return *allocator_; }
  hal::Queue& queue() override { return *queue_; }
  absl::StatusOr<void*> Scratch(uint64_t bytes, const Account* account, MemoryDomain domain) override {
    return scratch_.Get(bytes, account, domain);
  }

  absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable) override {
    const std::string rest = cluster::Packer().Number(line_.lane).Rest(executable.SerializeAsString()).Take();
    std::string answer;
    KILN_RETURN_IF_ERROR(line_.Blame(
        line_.board->End(line_.board->Begin(line_.rank, line_.shared_lane, Command::kLoad, rest), &answer)));
    cluster::Unpacker loaded(answer);
    const auto module = loaded.Number<uint64_t>();
    if (!loaded.ok()) return line_.Blame(cluster::BadMessage("has no module's number"));
    std::vector<uint32_t> operands(executable.kernels_size());
    const auto note = [&](const v1::Step& step) {
      operands[step.kernel()] = static_cast<uint32_t>(step.operands_size());
    };
    for (const v1::Preparation& preparation : executable.preparations()) note(preparation.step());
    for (const v1::Step& step : executable.steps()) note(step);
    return std::make_unique<RemoteModule>(line_, module, std::move(operands), counters_);
  }

  hal::DeviceStats stats() const override {
    hal::DeviceStats stats;
    stats.memory = allocator_->stats();
    stats.queue_depth = queue_->depth();
    stats.launches = counters_.launches.load(std::memory_order_relaxed);
    stats.modules = counters_.modules.load(std::memory_order_relaxed);
    return stats;
  }

  absl::Status health() const override { return line_.Health(); }
  hal::Remote* remote() override { return this; }

  uint32_t rank() const override { return line_.rank; }
  cluster::Transport& transport() override { return line_.board->transport(); }
  absl::Status Do(absl::string_view task) override { return line_.Ask(Command::kTask, std::string(task)); }

  absl::Status Load(const void* address, uint64_t bytes, void* to) override {
    return line_.Read(line_.shared_lane, reinterpret_cast<uint64_t>(address), bytes, to);
  }
  absl::Status Store(const void* from, uint64_t bytes, void* address) override {
    return line_.Write(line_.shared_lane, {absl::string_view(static_cast<const char*>(from), bytes)},
                       reinterpret_cast<uint64_t>(address), bytes);
  }

 private:
  // Not by the device's lane: whoever asks for memory may be its work, and has it before what waits there.
  absl::Status ClearNow(uint64_t address, uint64_t bytes) {
    return line_.Blame(line_.board->End(line_.board->Begin(line_.rank, line_.shared_lane, Command::kClear,
                                                           cluster::Packer().Number(address).Number(bytes).Take())));
  }
  void Clear(uint64_t address, uint64_t bytes, std::function<void()> done) {
    // An error means that the device is dead: nobody reads it again.
    if (done == nullptr) return ClearNow(address, bytes).IgnoreError();
    if (queue_ != nullptr) return queue_->Clear(address, bytes, std::move(done));
    done();
  }

  const Line line_;
  const std::string description_;
  const v1::Target target_;
  Counters counters_;
  const std::unique_ptr<hal::Allocator> allocator_;
  host::HostScratch scratch_;
  std::unique_ptr<RemoteQueue> queue_;
};

}  // namespace

std::string PlaceName(uint32_t rank, const std::string& host) { return absl::StrCat("rank ", rank, " on ", host); }

std::vector<std::unique_ptr<hal::Device>> MakeDevices(const std::shared_ptr<Switchboard>& board, uint32_t rank,
                                                      const Hello& hello, uint32_t first) {
  std::vector<std::unique_ptr<hal::Device>> devices;
  board->transport().SetName(rank, PlaceName(rank, hello.host));
  for (uint32_t i = 0; i < hello.devices.size(); ++i) {
    Line line;
    line.board = board;
    line.rank = rank;
    line.lane = i;
    line.shared_lane = static_cast<uint32_t>(hello.devices.size());
    line.name = absl::StrCat("CPU:", first + i);
    std::string description = absl::StrCat(hello.devices[i].description, ", ", PlaceName(rank, hello.host));
    devices.push_back(std::make_unique<RemoteDevice>(std::move(line), hello.devices[i], std::move(description)));
  }
  return devices;
}

}  // namespace kiln::runtime::remote
