#include "server/engine/memory/buffer_table.h"

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

absl::Status HandleFreed(uint64_t handle) {
  v1::ErrorDetail detail;
  detail.set_code(v1::HANDLE_FREED);
  detail.set_handle(handle);
  return MakeError(detail, absl::StrFormat("the handle %016x was freed by this client", handle));
}

bool Shows(const BufferRecord& record, const Session* caller) {
  return record.owner == nullptr || record.owner.get() == caller;
}

}  // namespace

Extent ExtentIn(const BufferRecord& record, uint64_t offset, uint64_t bytes) {
  const uint64_t begin = record.slice.offset + offset;
  return {record.poison, begin, begin + bytes};
}

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
  absl::Status owned = record->owner->Own(handle, limits_.of_session, OwnBytes(*record));
  if (owned.ok()) return handle;
  FreeOwn({handle}, record->owner.get()).IgnoreError();
  return owned;
}

absl::StatusOr<PoisonPtr> BufferTable::Reserve(uint64_t handle, Session& owner) {
  if (Show(handle, &owner) != nullptr) return HandleTaken(handle);
  if (size_.fetch_add(1, std::memory_order_relaxed) >= limits_.all) {
    size_.fetch_sub(1, std::memory_order_relaxed);
    return TooManyHandles(limits_.all, "");
  }
  auto poison = std::make_shared<Poison>();
  absl::Status added = owner.names().Add(handle, {nullptr, poison}, limits_.of_session);
  if (added.ok()) return poison;
  size_.fetch_sub(1, std::memory_order_relaxed);
  return added;
}

PoisonPtr BufferTable::Refuse(uint64_t handle, Session& owner) {
  return Show(handle, &owner) == nullptr ? owner.names().Refuse(handle) : nullptr;
}

BufferTable::Record BufferTable::Show(uint64_t handle, const Session* caller) const {
  const Shard& shard = shards_[ShardOf(handle)];
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.records.find(handle);
  return found != shard.records.end() && Shows(*found->second, caller) ? found->second : nullptr;
}

absl::StatusOr<BufferTable::Record> BufferTable::Find(uint64_t handle, const Session* caller) const {
  NamedRecord named;
  if (caller == nullptr || !caller->names().Find(handle, named)) named.record = Show(handle, caller);
  if (named.record != nullptr) return std::move(named.record);
  if (named.poison != nullptr) {
    if (const CausePtr cause = named.poison->In(0, Poison::kEnd); cause != nullptr) return cause->status;
  }
  // It may be reserved, by the very command that asks.
  return caller != nullptr && caller->names().WasFreed(handle) ? HandleFreed(handle) : UnknownHandle(handle);
}

BufferTable::Shown BufferTable::ExtentOf(uint64_t handle, uint64_t offset, absl::optional<uint64_t> bytes,
                                         const Session* caller) const {
  NamedRecord named;
  const bool is_name = caller != nullptr && caller->names().Find(handle, named);
  const Record record = is_name ? std::move(named.record) : Show(handle, caller);
  if (record == nullptr) return {{std::move(named.poison), 0, Poison::kEnd}, /*made=*/false};
  const uint64_t all = record->slice.bytes;
  if (offset > all || bytes.value_or(0) > all - offset) return {ExtentIn(*record, 0, all)};
  return {ExtentIn(*record, offset, bytes.value_or(all - offset))};
}

void BufferTable::End(Session& session) {
  // One that is not there was freed by its client in this moment.
  for (const uint64_t handle : session.End()) Free({handle}, &session).IgnoreError();
  size_.fetch_sub(session.names().End(), std::memory_order_relaxed);
}

// Holds every shard concerned, in order of their numbers, between the look and
// the leap.
absl::Status BufferTable::Free(absl::Span<const uint64_t> handles, Session* caller) {
  absl::flat_hash_set<uint64_t> distinct;
  absl::InlinedVector<uint64_t, 8> named, others;
  for (const uint64_t handle : handles) {
    if (!distinct.insert(handle).second) return UnknownHandle(handle);
    NamedRecord record;
    const bool is_name = caller != nullptr && caller->names().Find(handle, record);
    if (!is_name && caller != nullptr && caller->names().WasFreed(handle)) return HandleFreed(handle);
    (is_name ? named : others).push_back(handle);
  }
  if (!others.empty()) KILN_RETURN_IF_ERROR(FreeOwn(others, caller));
  if (!named.empty()) size_.fetch_sub(caller->names().Free(named), std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status BufferTable::FreeOwn(absl::Span<const uint64_t> handles,
                                  const Session* caller) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::bitset<kShards> concerned;
  for (const uint64_t handle : handles) concerned.set(ShardOf(handle));
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
    if (freed[i]->owner != nullptr) freed[i]->owner->Disown(handles[i], OwnBytes(*freed[i]));
  }
  return status;
}

}  // namespace kiln::server
