#include "server/engine/memory/handle_names.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "server/engine/memory/buffer_table.h"
#include "server/engine/memory/session.h"

namespace kiln::server {

absl::Status HandleTaken(uint64_t handle) {
  v1::ErrorDetail detail;
  detail.set_code(handle == 0 ? v1::BAD_ARGUMENT : v1::HANDLE_TAKEN);
  detail.set_field("handle");
  detail.set_handle(handle);
  if (handle == 0) return MakeError(detail, "a handle of the client's choice may be any number but 0");
  return MakeError(detail,
                   absl::StrFormat("the handle %016x names something already; free it, or choose another", handle));
}

absl::Status HandleNames::Add(uint64_t handle, NamedRecord named, uint64_t max_handles) {
  if (handle == 0) return HandleTaken(handle);
  absl::MutexLock lock(&mutex_);
  if (ended_) return UnknownSession();
  if (named_.size() >= max_handles) return TooManyHandles(max_handles, kSessionHeader);
  if (named_.contains(handle)) return HandleTaken(handle);
  KILN_RETURN_IF_ERROR(charge_.Grow(1));
  ForgetRefused(handle);
  if (named.record != nullptr) bytes_ += OwnBytes(*named.record);
  named_.emplace(handle, std::move(named));
  return absl::OkStatus();
}

bool HandleNames::Find(uint64_t handle, NamedRecord& named) const {
  absl::MutexLock lock(&mutex_);
  if (const auto found = named_.find(handle); found != named_.end()) {
    named = found->second;
    return true;
  }
  for (const auto& [refused, poison] : refused_) {
    if (refused != handle) continue;
    named = {nullptr, poison};
    return true;
  }
  return false;
}

PoisonPtr HandleNames::Refuse(uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  if (handle == 0 || ended_ || named_.contains(handle)) return nullptr;
  ForgetRefused(handle);
  if (refused_.size() == kRefusedNames) refused_.pop_front();
  return refused_.emplace_back(handle, std::make_shared<Poison>()).second;
}

bool HandleNames::ForgetRefused(uint64_t handle) {
  const auto found =
      std::find_if(refused_.begin(), refused_.end(), [handle](const auto& each) { return each.first == handle; });
  if (found == refused_.end()) return false;
  refused_.erase(found);
  return true;
}

bool HandleNames::WasFreed(uint64_t handle) const {
  absl::MutexLock lock(&mutex_);
  return freed_.contains(handle);
}

void HandleNames::Make(uint64_t handle, std::shared_ptr<const BufferRecord> record) {
  absl::MutexLock lock(&mutex_);
  const auto found = named_.find(handle);
  if (found == named_.end() || found->second.record != nullptr) return;
  if (record->poison != nullptr) found->second.poison = record->poison;  // a view's is that of its memory
  bytes_ += OwnBytes(*record);
  found->second.record = std::move(record);
}

size_t HandleNames::Free(absl::Span<const uint64_t> handles) {
  // Memory is given back after the lock is.
  absl::InlinedVector<NamedRecord, 4> freed;
  absl::MutexLock lock(&mutex_);
  for (const uint64_t handle : handles) {
    const auto found = named_.find(handle);
    if (found != named_.end()) {
      if (found->second.record != nullptr) bytes_ -= OwnBytes(*found->second.record);
      freed.push_back(std::move(found->second));
      named_.erase(found);
    } else if (!ForgetRefused(handle)) {
      continue;
    }
    ++freed_[handle];
    freed_order_.push_back(handle);
    if (freed_order_.size() <= kFreedNames) continue;
    const auto oldest = freed_.find(freed_order_.front());
    if (--oldest->second == 0) freed_.erase(oldest);
    freed_order_.pop_front();
  }
  charge_.Shrink(freed.size());
  return freed.size();
}

size_t HandleNames::End() {
  absl::flat_hash_map<uint64_t, NamedRecord> ended;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    named_.swap(ended);
    refused_.clear();
    charge_.Release();
    bytes_ = 0;
  }
  return ended.size();
}

}  // namespace kiln::server
