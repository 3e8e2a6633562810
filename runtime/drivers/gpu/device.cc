#include "runtime/drivers/gpu/device.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "runtime/drivers/gpu/allocator.h"
#include "runtime/drivers/gpu/module.h"
#include "runtime/drivers/gpu/nccl.h"
#include "runtime/drivers/gpu/owned.h"
#include "runtime/drivers/gpu/queue.h"
#include "runtime/drivers/gpu/transfers.h"
#include "runtime/drivers/host/host_scratch.h"
#include "runtime/memory/caching_allocator.h"

namespace kiln::runtime::gpu {
namespace {

class GpuDevice final : public hal::Device {
 public:
  GpuDevice(std::unique_ptr<Card> card, OwnedStream stream, OwnedStream aside, OwnedEvent cleared, uint64_t limit_bytes)
      : card_(std::move(card)),
        stream_(std::move(stream)),
        aside_(std::move(aside)),
        cleared_(std::move(cleared)),
        description_(absl::StrCat(card_->facts().product, ", ", card_->facts().driver)),
        clock_(card_.get(), stream_.get()),
        place_{card_.get(), stream_.get(), &clock_},
        // All that is freed is kept until memory is short: the card takes long to give and to
        // take.
        allocator_(MakeCachingAllocator(
            MakeCardAllocator(this, card_.get(), limit_bytes,
                              [this](Address to, uint64_t bytes) { return Clear(to, bytes); }),
            limit_bytes, [this](void* data, uint64_t bytes) { return Clear(reinterpret_cast<Address>(data), bytes); })),
        scratch_(allocator_.get()),
        transfers_(card_.get(), aside_.get()),
        queue_(this, card_.get(), stream_.get()) {}

  ~GpuDevice() override {
    // Collectives may still be on their way out of the queue.
    queue_.Drain(absl::InfiniteFuture()).IgnoreError();
    if (nccl_ != nullptr) nccl_->Forget(this);
  }

  absl::string_view name() const override { return card_->facts().name; }
  absl::string_view description() const override { return description_; }
  const v1::Target& target() const override { return card_->facts().target; }
  hal::Allocator& allocator() override { return *allocator_; }
  hal::Queue& queue() override { return queue_; }
  absl::StatusOr<void*> Scratch(uint64_t bytes, const Account* account, MemoryDomain domain) override {
    return scratch_.Get(bytes, account, domain);
  }
  absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable) override {
    return gpu::LoadModule(executable, &place_, &modules_);
  }
  std::unique_ptr<hal::LaunchList> MakeLaunchList(absl::Span<const hal::Launch> launches) override {
    return gpu::MakeLaunchList(launches, &place_);
  }

  absl::Status FinishLaunches() override { return clock_.Finish(); }
  std::optional<double> TakeLaunchSeconds() override { return clock_.Take(); }

  absl::Status Load(const void* address, uint64_t bytes, void* to) override {
    absl::MutexLock lock(&mutex_);
    return transfers_.Out(reinterpret_cast<Address>(address), to, bytes);
  }
  absl::Status Store(const void* from, uint64_t bytes, void* address) override {
    const absl::string_view piece(static_cast<const char*>(from), bytes);
    absl::MutexLock lock(&mutex_);
    return transfers_.In({&piece, 1}, reinterpret_cast<Address>(address));
  }

  std::vector<std::string> peers() const override {
    std::vector<std::string> names;
    for (const GpuDevice* peer : peers_) names.emplace_back(peer->name());
    return names;
  }
  bool CopiesFrom(const hal::Device& other) const override { return Find(other) != nullptr; }
  absl::Status CopyFrom(hal::Device& other, absl::Span<const hal::Move> moves) override {
    absl::MutexLock lock(&mutex_);
    absl::Status status = StartCopies(*Find(other), moves);
    // Also after a failure: nothing may go on in memory that is let go.
    status.Update(card_->Finish(aside_.get()));
    return status;
  }

  // Before other code has either.
  void Connect(GpuDevice& other) {
    const absl::StatusOr<bool> reached = card_->ReachPeer(*other.card_);
    // What stands in the way is for the vendor's tools to say; copies go by the host then.
    if (reached.ok() && *reached) peers_.push_back(&other);
  }

  // Before other code has it.
  void Join(std::shared_ptr<Nccl> nccl) {
    nccl_ = std::move(nccl);
    nccl_->Add(this, card_.get(), stream_.get());
    absl::StrAppend(&description_, ", ", nccl_->version());
  }
  collective::Vendor* vendor() override { return nccl_.get(); }

  hal::DeviceStats stats() const override {
    hal::DeviceStats stats;
    stats.memory = allocator_->stats();
    stats.queue_depth = queue_.depth();
    stats.launches = place_.launches.load(std::memory_order_relaxed);
    stats.modules = modules_.load(std::memory_order_relaxed);
    return stats;
  }
  absl::Status health() const override { return card_->health(); }

 private:
  // Nobody has the memory yet. Whoever gets it uses it by one of the two streams, and so after
  // this, which waits for neither.
  absl::Status Clear(Address to, uint64_t bytes) {
    absl::MutexLock lock(&clear_mutex_);
    KILN_RETURN_IF_ERROR(card_->Fill(aside_.get(), to, 0, 1, bytes));
    KILN_RETURN_IF_ERROR(card_->Record(cleared_.get(), aside_.get()));
    return card_->Follow(stream_.get(), cleared_.get());
  }

  // Of this device and its peers; else null.
  GpuDevice* Find(const hal::Device& other) const {
    if (&other == this) return const_cast<GpuDevice*>(this);
    const auto found = std::find(peers_.begin(), peers_.end(), &other);
    return found == peers_.end() ? nullptr : *found;
  }

  absl::Status StartCopies(GpuDevice& from, absl::Span<const hal::Move> moves) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (&from != this) KILN_RETURN_IF_ERROR(from.LetFollow(*card_, aside_.get()));
    for (const hal::Move& move : moves) {
      if (move.bytes == 0) continue;
      const auto source = reinterpret_cast<Address>(move.from), target = reinterpret_cast<Address>(move.to);
      KILN_RETURN_IF_ERROR(&from == this ? card_->CopyInside(aside_.get(), source, target, move.bytes)
                                         : card_->CopyFromPeer(aside_.get(), *from.card_, source, target, move.bytes));
    }
    return absl::OkStatus();
  }

  // Another card's stream goes on when all memory that was given out here is clear.
  absl::Status LetFollow(Card& card, Stream stream) {
    absl::MutexLock lock(&clear_mutex_);
    KILN_RETURN_IF_ERROR(card_->Record(cleared_.get(), aside_.get()));
    return card.Follow(stream, cleared_.get());
  }

  const std::unique_ptr<Card> card_;
  std::vector<GpuDevice*> peers_;
  const OwnedStream stream_;  // the queue's
  const OwnedStream aside_;   // for what does not wait for the queue
  absl::Mutex clear_mutex_;   // held while these three are asked for one clearing
  const OwnedEvent cleared_;
  std::string description_;
  std::shared_ptr<Nccl> nccl_;
  LaunchClock clock_;
  LaunchPlace place_;
  std::atomic<uint64_t> modules_ = 0;
  const std::unique_ptr<hal::Allocator> allocator_;
  host::HostScratch scratch_;
  absl::Mutex mutex_;
  Transfers transfers_ ABSL_GUARDED_BY(mutex_);
  GpuQueue queue_;  // last, hence the first to go: its work uses all of the above
};

absl::StatusOr<std::unique_ptr<GpuDevice>> MakeDevice(std::unique_ptr<Card> card, const DeviceOptions& options) {
  const uint64_t limit_bytes = card->facts().memory_bytes / 100 * options.memory_percent;
  KILN_ASSIGN_OR_RETURN(const Stream stream, card->MakeStream());
  OwnedStream owned(card.get(), stream);
  KILN_ASSIGN_OR_RETURN(const Stream aside, card->MakeStream());
  OwnedStream owned_aside(card.get(), aside);
  KILN_ASSIGN_OR_RETURN(const Event cleared, card->MakeEvent());
  OwnedEvent owned_cleared(card.get(), cleared);
  return std::make_unique<GpuDevice>(std::move(card), std::move(owned), std::move(owned_aside),
                                     std::move(owned_cleared), limit_bytes);
}

}  // namespace

void MakeDevices(std::vector<std::unique_ptr<Card>> cards, const DeviceOptions& options,
                 const CollectiveLibrary& collectives, Found& found) {
  std::vector<GpuDevice*> made;
  for (std::unique_ptr<Card>& card : cards) {
    auto device = MakeDevice(std::move(card), options);
    if (!device.ok()) {
      found.absent.emplace_back(device.status().message());
      continue;
    }
    made.push_back(device->get());
    found.devices.push_back(*std::move(device));
  }
  for (GpuDevice* one : made) {
    for (GpuDevice* other : made) {
      if (one != other) one->Connect(*other);
    }
  }
  if (made.size() < 2) return;
  const auto nccl = Nccl::Open(collectives.path, collectives.name);
  if (!nccl.ok()) {
    found.no_collectives = std::string(nccl.status().message());
    return;
  }
  for (GpuDevice* device : made) device->Join(*nccl);
}

}  // namespace kiln::runtime::gpu
