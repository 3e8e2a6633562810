#include "server/engine/buffer_table.h"

#include <bitset>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "base/error.h"

namespace kiln::server {
namespace {

absl::Status UnknownHandle(uint64_t handle) {
  v1::ErrorDetail detail;
  detail.set_code(v1::UNKNOWN_HANDLE);
  detail.set_handle(handle);
  return MakeError(detail, absl::StrFormat("no buffer has the handle %016x; it was freed, is another session's, or was "
                                           "never given out",
                                           handle));
}

bool Shows(const BufferRecord& record, const Session* caller) {
  return record.owner == nullptr || record.owner.get() == caller;
}

}  // namespace

// The owner hears of the handle once it is there: a session that ends in between
// finds it, or refuses it.
absl::StatusOr<uint64_t> BufferTable::Add(Record record) {
  if (size_.fetch_add(1, std::memory_order_relaxed) >= limits_.all) {
    size_.fetch_sub(1, std::memory_order_relaxed);
    return TooManyHandles(limits_.all, "");
  }
  uint64_t handle = 0;
  for (bool filed = false; !filed;) {
    handle = names_.Next();
    Shard& shard = shards_[ShardOf(handle)];
    absl::MutexLock lock(&shard.mutex);
    filed = shard.records.try_emplace(handle, record).second;
  }
  if (record->owner == nullptr) return handle;
  absl::Status owned = record->owner->Own(handle, limits_.of_session);
  if (owned.ok()) return handle;
  Free({handle}, record->owner.get()).IgnoreError();
  return owned;
}

absl::StatusOr<BufferTable::Record> BufferTable::Find(uint64_t handle, const Session* caller) const {
  const Shard& shard = shards_[ShardOf(handle)];
  {
    absl::MutexLock lock(&shard.mutex);
    const auto found = shard.records.find(handle);
    if (found != shard.records.end() && Shows(*found->second, caller)) return found->second;
  }
  return UnknownHandle(handle);
}

// Holds every shard concerned, in order of their numbers, between the look and
// the leap.
absl::Status BufferTable::Free(absl::Span<const uint64_t> handles,
                               const Session* caller) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::bitset<kShards> concerned;
  absl::flat_hash_set<uint64_t> distinct;
  for (uint64_t handle : handles) {
    if (!distinct.insert(handle).second) return UnknownHandle(handle);
    concerned.set(ShardOf(handle));
  }
  // Memory is given back after the locks are.
  std::vector<Record> freed;
  freed.reserve(handles.size());
  absl::Status status;
  for (size_t i = 0; i < kShards; ++i) {
    if (concerned[i]) shards_[i].mutex.Lock();
  }
  for (uint64_t handle : handles) {
    const auto& records = shards_[ShardOf(handle)].records;
    const auto found = records.find(handle);
    if (found != records.end() && Shows(*found->second, caller)) continue;
    status = UnknownHandle(handle);
    break;
  }
  if (status.ok()) {
    for (uint64_t handle : handles) {
      auto& records = shards_[ShardOf(handle)].records;
      const auto found = records.find(handle);
      freed.push_back(std::move(found->second));
      records.erase(found);
    }
    size_.fetch_sub(handles.size(), std::memory_order_relaxed);
  }
  for (size_t i = 0; i < kShards; ++i) {
    if (concerned[i]) shards_[i].mutex.Unlock();
  }
  for (size_t i = 0; i < freed.size(); ++i) {
    if (freed[i]->owner != nullptr) freed[i]->owner->Disown(handles[i]);
  }
  return status;
}

}  // namespace kiln::server
