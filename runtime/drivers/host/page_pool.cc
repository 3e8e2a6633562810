#include "runtime/drivers/host/page_pool.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace kiln::runtime::host {
namespace {

// Sixteen of the largest parts and more: what is freed in between finds its next use.
constexpr uint64_t kMiddleSlab = uint64_t{64} << 20;
constexpr uint64_t kLargeSlab = uint64_t{256} << 20;

uint64_t RoundedTo(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

absl::Status OutOfMappings(const Mappings& mappings, uint64_t bytes) {
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_limit("memory mappings");
  detail.set_limit_value(mappings.limit());
  detail.set_used(mappings.used());
  return MakeError(std::move(detail), absl::StrCat(bytes, " bytes need a memory mapping more, and buffers may have ",
                                                   mappings.limit(), ": free some, or have fewer and larger ones"));
}

absl::Status OutOfMemory(uint64_t bytes) {
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  return MakeError(std::move(detail), absl::StrCat("the system gives this process no ", bytes, " bytes more"));
}

}  // namespace

bool Mappings::Take() {
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used >= limit_) return false;
  } while (!used_.compare_exchange_weak(used, used + 1, std::memory_order_relaxed));
  return true;
}

uint64_t Mappings::OfTheSystem() {
  uint64_t most = 0;
  std::ifstream file("/proc/sys/vm/max_map_count");
  constexpr uint64_t kUsual = 65'530;
  return file >> most && most > 0 ? most : kUsual;
}

Slabs::~Slabs() {
  absl::MutexLock lock(&mutex_);
  for (const uintptr_t slab : slabs_) {
    // At worst, addresses stay until the process ends.
    (void)UnmapPages(reinterpret_cast<void*>(slab), slab_bytes_);
    mappings_->Return();
  }
}

void* Slabs::Take(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  auto best = by_bytes_.lower_bound({bytes, 0});
  if (best == by_bytes_.end()) {
    if (!mappings_->Take()) return nullptr;
    void* const slab = MapPages(slab_bytes_, size_);
    if (slab == nullptr) {
      mappings_->Return();
      return nullptr;
    }
    slabs_.insert(reinterpret_cast<uintptr_t>(slab));
    AddFree(reinterpret_cast<uintptr_t>(slab), slab_bytes_);
    best = std::prev(by_bytes_.end());
  }
  const auto [free_bytes, begin] = *best;
  KILN_CHECK(bytes % kPage == 0 && bytes <= free_bytes);
  RemoveFree(begin, free_bytes);
  if (free_bytes > bytes) AddFree(begin + bytes, free_bytes - bytes);
  return reinterpret_cast<void*>(begin);
}

bool Slabs::Return(void* data, uint64_t bytes) {
  uintptr_t begin = reinterpret_cast<uintptr_t>(data);
  {
    absl::MutexLock lock(&mutex_);
    if (SlabOf(begin) == 0) return false;
  }
  // Without the lock: to give back pages that were written takes a while. Nobody else has them meanwhile.
  EmptyPages(data, bytes);
  absl::MutexLock lock(&mutex_);
  const uintptr_t slab = SlabOf(begin);
  uintptr_t end = begin + bytes;
  if (const auto behind = free_.find(end); behind != free_.end() && end < slab + slab_bytes_) {
    end += behind->second;
    RemoveFree(behind->first, behind->second);
  }
  if (const auto next = free_.lower_bound(begin); next != free_.begin()) {
    const auto [before, before_bytes] = *std::prev(next);
    if (before >= slab && before + before_bytes == begin) {
      RemoveFree(before, before_bytes);
      begin = before;
    }
  }
  // An empty slab is kept, unless there is another one: the next buffer would want it again.
  const bool empty = end - begin == slab_bytes_;
  const bool other = !by_bytes_.empty() && by_bytes_.rbegin()->first == slab_bytes_;
  if (empty && other && UnmapPages(reinterpret_cast<void*>(slab), slab_bytes_)) {
    slabs_.erase(slab);
    mappings_->Return();
  } else {
    AddFree(begin, end - begin);
  }
  return true;
}

uintptr_t Slabs::SlabOf(uintptr_t address) const {
  const auto next = slabs_.upper_bound(address);
  if (next == slabs_.begin()) return 0;
  const uintptr_t slab = *std::prev(next);
  return address - slab < slab_bytes_ ? slab : 0;
}

void Slabs::AddFree(uintptr_t begin, uint64_t bytes) {
  free_.emplace(begin, bytes);
  by_bytes_.emplace(bytes, begin);
}

void Slabs::RemoveFree(uintptr_t begin, uint64_t bytes) {
  free_.erase(begin);
  by_bytes_.erase({bytes, begin});
}

PagePool::PagePool(std::shared_ptr<Mappings> mappings)
    : mappings_(std::move(mappings)),
      middle_(mappings_.get(), kMiddleSlab, PageSize::kSmall),
      large_(mappings_.get(), kLargeSlab, PageSize::kLarge) {}

PagePool::~PagePool() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [bytes, data] : kept_) {
    (void)UnmapPages(data, bytes);
    mappings_->Return();
  }
}

uint64_t PagePool::Rounded(uint64_t bytes) { return RoundedTo(bytes, kPage); }

absl::StatusOr<void*> PagePool::Take(uint64_t bytes) {
  bytes = Rounded(bytes);
  void* data = nullptr;
  if (bytes < kOwnMapping) data = (bytes < kLarge ? middle_ : large_).Take(bytes);
  // Also where there is no room for a whole slab.
  if (data == nullptr) data = TakeMapping(bytes);
  if (data != nullptr) return data;
  if (mappings_->used() >= mappings_->limit()) return OutOfMappings(*mappings_, bytes);
  return OutOfMemory(bytes);
}

void PagePool::Return(void* data, uint64_t bytes) {
  bytes = Rounded(bytes);
  if (bytes < kOwnMapping && (bytes < kLarge ? middle_ : large_).Return(data, bytes)) return;
  ReturnMapping(data, bytes);
}

void* PagePool::TakeMapping(uint64_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    if (const auto kept = kept_.find(bytes); kept != kept_.end()) {
      void* const data = kept->second;
      kept_.erase(kept);
      return data;
    }
  }
  if (!mappings_->Take()) return nullptr;
  void* const data = MapPages(bytes, bytes < kLarge ? PageSize::kSmall : PageSize::kLarge);
  if (data == nullptr) mappings_->Return();
  return data;
}

void PagePool::ReturnMapping(void* data, uint64_t bytes) {
  if (!UnmapPages(data, bytes)) {
    EmptyPages(data, bytes);
    absl::MutexLock lock(&mutex_);
    kept_.emplace(bytes, data);
    return;
  }
  mappings_->Return();
  absl::MutexLock lock(&mutex_);
  for (auto kept = kept_.begin(); kept != kept_.end() && UnmapPages(kept->second, kept->first);) {
    mappings_->Return();
    kept = kept_.erase(kept);
  }
}

}  // namespace kiln::runtime::host
