// A device's transfers for tests: each waits until it has ended, and returns its status.
#ifndef KILN_TESTS_SUPPORT_TRANSFERS_H_
#define KILN_TESTS_SUPPORT_TRANSFERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "runtime/hal/buffer.h"
#include "runtime/hal/device.h"

namespace kiln::testing {

// Bytes that differ from their neighbours, and by seed.
std::string Pattern(uint64_t bytes, int seed = 0);

// Calls `begin` with a callback, waits until that is called, and returns its status.
template <typename Begin>
absl::Status Outcome(const Begin& begin) {
  absl::Status outcome;
  absl::Notification done;
  begin([&](absl::Status status) {
    outcome = std::move(status);
    done.Notify();
  });
  done.WaitForNotification();
  return outcome;
}

absl::Status Write(runtime::hal::Device& device, const std::string& bytes, const runtime::hal::BufferSlice& to);
absl::Status WritePieces(runtime::hal::Device& device, const std::vector<absl::string_view>& pieces,
                         const runtime::hal::BufferSlice& to);
absl::Status Copy(runtime::hal::Device& device, const runtime::hal::BufferSlice& from,
                  const runtime::hal::BufferSlice& to);
absl::Status Fill(runtime::hal::Device& device, const runtime::hal::BufferSlice& to, const std::string& pattern);
absl::StatusOr<std::string> Read(runtime::hal::Device& device, const runtime::hal::BufferSlice& from);

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_TRANSFERS_H_
