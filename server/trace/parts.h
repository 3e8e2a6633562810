// The parts of a call, and when each was: what the engine notes and a trace shows.
#ifndef KILN_SERVER_TRACE_PARTS_H_
#define KILN_SERVER_TRACE_PARTS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// In the order in which they come; docs/tracing.md says what each is.
#define KILN_CALL_PARTS(PART)   \
  PART(kDecode, "decode")       \
  PART(kVerify, "verify")       \
  PART(kCache, "cache")         \
  PART(kCompile, "compile")     \
  PART(kArguments, "arguments") \
  PART(kTurn, "turn")           \
  PART(kUpload, "upload")       \
  PART(kQueue, "queue")         \
  PART(kDevice, "device")       \
  PART(kResults, "results")     \
  PART(kEncode, "encode")

namespace kiln::server {

class CompileStages;  // stages.h

#define KILN_PART_ID(id, name) id,
#define KILN_PART_NAME(id, name) name,
enum class Part : uint8_t { KILN_CALL_PARTS(KILN_PART_ID) };
inline constexpr const char* kPartNames[] = {KILN_CALL_PARTS(KILN_PART_NAME)};
#undef KILN_PART_ID
#undef KILN_PART_NAME
inline constexpr size_t kParts = sizeof(kPartNames) / sizeof(kPartNames[0]);

// UTF-8 in a record: as many whole characters as there is room for.
template <size_t kBytes>
struct ShortText {
  std::array<char, kBytes> bytes = {};

  void Set(absl::string_view text) {
    size_t size = std::min(text.size(), kBytes);
    while (size > 0 && size < text.size() && (text[size] & 0xC0) == 0x80) --size;
    bytes = {};
    std::memcpy(bytes.data(), text.data(), size);
  }
  absl::string_view view() const {
    return {bytes.data(), static_cast<size_t>(std::find(bytes.begin(), bytes.end(), '\0') - bytes.begin())};
  }
};

// Nanoseconds since 1970.
struct Interval {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;  // 0: it never was
};

// Of one call, which one thread at a time works on.
struct CallParts {
  std::array<Interval, kParts> parts = {};
  ShortText<16> device;

  void Set(Part part, absl::Time begin, absl::Time end) {
    parts[static_cast<size_t>(part)] = {absl::ToUnixNanos(begin), absl::ToUnixNanos(end)};
  }
  // A run that was submitted then, waited in its device's queue, and ran.
  void SetRun(absl::Time submitted, double queue_seconds, double device_seconds) {
    const absl::Time began = submitted + absl::Seconds(queue_seconds);
    Set(Part::kQueue, submitted, began);
    Set(Part::kDevice, began, began + absl::Seconds(device_seconds));
  }
  // From its arguments to its results it was one run with another, whose these are.
  void SetRunOf(const CallParts& run) {
    const auto from = static_cast<size_t>(Part::kArguments), end = static_cast<size_t>(Part::kResults) + 1;
    std::copy(run.parts.begin() + from, run.parts.begin() + end, parts.begin() + from);
    device = run.device;
  }
};

// What whoever works on a call notes of it.
struct NotedParts : CallParts {
  // Of the program that it waited for, if that was compiled meanwhile; else null.
  std::shared_ptr<const CompileStages> stages;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_TRACE_PARTS_H_
