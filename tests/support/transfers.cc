#include "tests/support/transfers.h"

namespace kiln::testing {

using runtime::hal::BufferSlice;
using runtime::hal::Device;

std::string Pattern(uint64_t bytes, int seed) {
  std::string pattern(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i)
    pattern[i] = static_cast<char>((i * 7 + i / 251 + static_cast<uint64_t>(seed)) & 0xff);
  return pattern;
}

absl::Status Write(Device& device, const std::string& bytes, const BufferSlice& to) {
  return Outcome([&](auto done) { device.queue().Write(bytes.data(), to, std::move(done)); });
}

absl::Status WritePieces(Device& device, const std::vector<absl::string_view>& pieces, const BufferSlice& to) {
  return Outcome([&](auto done) { device.queue().WritePieces(pieces, to, std::move(done)); });
}

absl::Status Copy(Device& device, const BufferSlice& from, const BufferSlice& to) {
  return Outcome([&](auto done) { device.queue().Copy(from, to, std::move(done)); });
}

absl::Status Fill(Device& device, const BufferSlice& to, const std::string& pattern) {
  return Outcome([&](auto done) { device.queue().Fill(to, pattern, std::move(done)); });
}

absl::StatusOr<std::string> Read(Device& device, const BufferSlice& from) {
  std::string bytes(from.bytes, '?');
  const absl::Status status = Outcome([&](auto done) { device.queue().Read(from, bytes.data(), std::move(done)); });
  if (!status.ok()) return status;
  return bytes;
}

}  // namespace kiln::testing
