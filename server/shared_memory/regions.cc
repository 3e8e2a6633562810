#include "server/shared_memory/regions.h"

#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/engine/memory/over_limit.h"

namespace kiln::server {
namespace {

absl::Status Unknown(uint64_t handle) {
  v1::ErrorDetail detail;
  detail.set_code(v1::UNKNOWN_HANDLE);
  detail.set_field("shared_memory");
  detail.set_handle(handle);
  return MakeError(detail, absl::StrFormat("no shared memory has the handle %016x; its connection was closed, it is "
                                           "another session's, or it was never handed over",
                                           handle));
}

}  // namespace

absl::StatusOr<uint64_t> SharedRegions::Reserve(uint64_t bytes, SessionPtr caller) {
  if (bytes == 0) return MakeError(v1::BAD_ARGUMENT, "shared memory of no bytes");
  absl::MutexLock lock(&mutex_);
  Sweep();
  if (rows_.size() >= kMaxRegions) {
    return OverLimit("shared memory regions", kMaxRegions, kMaxRegions + 1,
                     absl::StrCat("there are ", kMaxRegions, " regions of shared memory, as many as this server maps"));
  }
  if (bytes > max_bytes_ - bytes_) {
    return OverLimit("shared memory bytes", max_bytes_, bytes,
                     absl::StrCat(bytes, " bytes of shared memory; this server maps ", max_bytes_, ", of which ",
                                  bytes_, " are taken"));
  }
  Account* const account = AccountOf(caller.get());
  KILN_ASSIGN_OR_RETURN(Charge one_region, Hold(account, Quota::kRegions, 1));
  KILN_ASSIGN_OR_RETURN(Charge its_bytes, Hold(account, Quota::kRegionBytes, bytes));
  const uint64_t handle = names_.Next();
  Row& row = rows_[handle];
  row.owner = std::move(caller);
  row.bytes = bytes;
  row.reserved = SteadyNow();
  row.one_region = std::move(one_region);
  row.its_bytes = std::move(its_bytes);
  bytes_ += bytes;
  return handle;
}

absl::Status SharedRegions::Bring(uint64_t handle, int memfd) {
  uint64_t bytes = 0;
  {
    absl::MutexLock lock(&mutex_);
    Sweep();
    const auto row = rows_.find(handle);
    if (row == rows_.end() || !row->second.awaited) return Unknown(handle);
    row->second.awaited = false;
    bytes = row->second.bytes;
  }
  // Mapping takes a while, and others need not wait for it.
  auto region = SharedRegion::Map(memfd, bytes);
  absl::MutexLock lock(&mutex_);
  const auto row = rows_.find(handle);
  if (row == rows_.end()) return Unknown(handle);
  if (!region.ok()) {
    Erase(row);
    return region.status();
  }
  row->second.region = *std::move(region);
  return absl::OkStatus();
}

void SharedRegions::Drop(uint64_t handle) {
  std::shared_ptr<SharedRegion> last;  // unmapped after the lock
  absl::MutexLock lock(&mutex_);
  const auto row = rows_.find(handle);
  if (row == rows_.end()) return;
  last = std::move(row->second.region);
  Erase(row);
}

void SharedRegions::Forget(const std::set<std::string, std::less<>>& tenants) {
  std::vector<std::shared_ptr<SharedRegion>> last;  // as in Drop
  absl::MutexLock lock(&mutex_);
  for (auto next = rows_.begin(); next != rows_.end();) {
    const auto row = next++;
    if (row->second.owner == nullptr || !tenants.contains(row->second.owner->tenant())) continue;
    last.push_back(std::move(row->second.region));
    Erase(row);
  }
}

absl::StatusOr<SharedBytes> SharedRegions::Find(uint64_t handle, uint64_t offset, uint64_t bytes,
                                                const Session* caller) const {
  absl::MutexLock lock(&mutex_);
  const auto row = rows_.find(handle);
  if (row == rows_.end() || row->second.region == nullptr || row->second.owner.get() != caller) return Unknown(handle);
  const std::shared_ptr<SharedRegion>& region = row->second.region;
  if (offset <= region->bytes() && bytes <= region->bytes() - offset)
    return SharedBytes{region, region->data() + offset};
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_BOUNDS);
  detail.set_field("shared_memory");
  detail.set_handle(handle);
  return MakeError(detail, absl::StrCat(bytes, " bytes from offset ", offset, " on are not inside shared memory of ",
                                        region->bytes(), " bytes"));
}

uint64_t SharedRegions::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

void SharedRegions::Erase(Rows::iterator row) {
  bytes_ -= row->second.bytes;
  rows_.erase(row);
}

void SharedRegions::Sweep() {
  const absl::Time oldest = SteadyNow() - timeout_;
  for (auto row = rows_.begin(); row != rows_.end();) {
    const auto next = std::next(row);
    if (row->second.awaited && row->second.reserved < oldest) Erase(row);
    row = next;
  }
}

}  // namespace kiln::server
