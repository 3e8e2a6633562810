#include "server/trace/trace_context.h"

#include <algorithm>
#include <cstddef>

namespace kiln::server {
namespace {

// Values of lower case alone: the standard has no others.
int HexValue(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

template <size_t kBytes>
bool ReadHex(absl::string_view text, std::array<uint8_t, kBytes>& bytes) {
  for (size_t i = 0; i < kBytes; ++i) {
    const int high = HexValue(text[2 * i]), low = HexValue(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

template <size_t kBytes>
bool IsZero(const std::array<uint8_t, kBytes>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(absl::string_view header) {
  constexpr size_t kTrace = 3, kSpan = 36, kFlags = 53, kLength = 55;
  if (header.size() < kLength) return std::nullopt;
  if (header[kTrace - 1] != '-' || header[kSpan - 1] != '-' || header[kFlags - 1] != '-') return std::nullopt;
  std::array<uint8_t, 1> version, flags;
  if (!ReadHex(header, version) || version[0] == 0xff) return std::nullopt;
  if (version[0] == 0 && header.size() != kLength) return std::nullopt;
  if (header.size() > kLength && header[kLength] != '-') return std::nullopt;
  TraceContext context;
  if (!ReadHex(header.substr(kTrace), context.trace_id) || !ReadHex(header.substr(kSpan), context.parent) ||
      !ReadHex(header.substr(kFlags), flags)) {
    return std::nullopt;
  }
  if (IsZero(context.trace_id) || IsZero(context.parent)) return std::nullopt;
  constexpr uint8_t kSampled = 1;
  context.sampled = (flags[0] & kSampled) != 0;
  return context;
}

}  // namespace kiln::server
