// Tested by tests/e2e/serving/models_test.cc.
#include "server/models/shared_constants.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"

namespace kiln::server {
namespace {

// Lengths come first, so that no two tensors are the same text.
Digest KeyOf(const runtime::hal::Device& device, v1::DType dtype, absl::Span<const int64_t> shape,
             absl::string_view bytes) {
  Blake3 hasher;
  hasher.Update(absl::StrCat(device.name().size(), ":", device.name(), ":", v1::DType_Name(dtype), ":", shape.size(),
                             ":", absl::StrJoin(shape, ","), ":", bytes.size(), ":"));
  hasher.Update(bytes);
  return hasher.Finish();
}

absl::Status Fill(runtime::hal::Device& device, const runtime::hal::BufferSlice& slice, absl::string_view bytes) {
  // Where the host sees the memory, its queue need not be asked: nobody knows the buffer yet.
  if (void* const to = slice.host_data()) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  absl::Status outcome;
  absl::Notification written;
  device.queue().Write(bytes.data(), slice, [&](absl::Status status) {
    outcome = std::move(status);
    written.Notify();
  });
  written.WaitForNotification();
  return outcome;
}

}  // namespace

absl::StatusOr<BufferTable::Record> SharedConstants::Hold(runtime::hal::Device& device, v1::DType dtype,
                                                          absl::Span<const int64_t> shape, absl::string_view bytes) {
  const Digest key = KeyOf(device, dtype, shape, bytes);
  std::weak_ptr<const BufferRecord>& held = held_[key];
  if (BufferTable::Record there = held.lock()) return there;
  KILN_ASSIGN_OR_RETURN(auto memory,
                        runtime::hal::AllocateFor(account_, device.allocator(), bytes.size(),
                                                  runtime::hal::MemoryUse::kProgram, MemoryDomain::kNobody));
  auto record = std::make_shared<BufferRecord>();
  record->slice = runtime::hal::BufferSlice::Whole(std::move(memory));
  record->device = &device;
  record->dtype = dtype;
  record->shape.assign(shape.begin(), shape.end());
  KILN_RETURN_IF_ERROR(Fill(device, record->slice, bytes));
  held = record;
  return record;
}

void SharedConstants::RemoveExpired() {
  absl::erase_if(held_, [](const auto& each) { return each.second.expired(); });
}

size_t SharedConstants::count() const {
  return static_cast<size_t>(
      std::count_if(held_.begin(), held_.end(), [](const auto& each) { return !each.second.expired(); }));
}

}  // namespace kiln::server
