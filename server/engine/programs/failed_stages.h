// How far a compilation came that failed (server/trace/stages.h), on the way to the calls that waited for it.
//
// A program keeps its stages; a failure has nothing but its status, which goes to all who joined by way of a cache that
// knows of no stages. So they travel in it, as a payload, and whoever answers a call takes them out again: a client is
// not told them here.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_FAILED_STAGES_H_
#define KILN_SERVER_ENGINE_PROGRAMS_FAILED_STAGES_H_

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "server/trace/stages.h"

namespace kiln::server {

// Of no type of protobuf's: server/messages/status.cc sends none of these.
inline constexpr absl::string_view kStagesUrl = "kiln/compile_stages";

static_assert(std::is_trivially_copyable_v<CompileStages>, "they go as they lie in memory");

// It failed in the last of these. `status` is a failure's.
inline absl::Status WithStages(absl::Status status, CompileStages stages) {
  stages.Fail();
  std::string bytes(sizeof(stages), '\0');
  std::memcpy(bytes.data(), &stages, sizeof(stages));
  status.SetPayload(kStagesUrl, absl::Cord(std::move(bytes)));
  return status;
}

inline absl::Status WithoutStages(absl::Status status) {
  status.ErasePayload(kStagesUrl);
  return status;
}

// Takes them out; null if there are none.
inline std::shared_ptr<const CompileStages> TakeStages(absl::Status& status) {
  const auto payload = status.GetPayload(kStagesUrl);
  if (!payload.has_value() || payload->size() != sizeof(CompileStages)) return nullptr;
  auto stages = std::make_shared<CompileStages>();
  const std::string bytes(*payload);
  std::memcpy(static_cast<void*>(stages.get()), bytes.data(), sizeof(*stages));
  status = WithoutStages(std::move(status));
  return stages;
}

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_FAILED_STAGES_H_
