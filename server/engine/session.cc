#include "server/engine/session.h"

#include "base/error.h"

namespace kiln::server {

absl::Status UnknownSession() {
  v1::ErrorDetail detail;
  detail.set_code(v1::UNKNOWN_HANDLE);
  detail.set_field(kSessionHeader);
  return MakeError(detail, "no session has this token; it was closed, its lease ran out, or it was never given out");
}

bool Session::Own(uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  if (ended_) return false;
  handles_.insert(handle);
  return true;
}

void Session::Disown(uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  handles_.erase(handle);
}

std::vector<uint64_t> Session::End() {
  absl::MutexLock lock(&mutex_);
  ended_ = true;
  std::vector<uint64_t> handles(handles_.begin(), handles_.end());
  absl::flat_hash_set<uint64_t>().swap(handles_);
  return handles;
}

}  // namespace kiln::server
