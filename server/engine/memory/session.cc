#include "server/engine/memory/session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/memory/over_limit.h"

namespace kiln::server {

absl::Status UnknownSession() {
  v1::ErrorDetail detail;
  detail.set_code(v1::UNKNOWN_HANDLE);
  detail.set_field(kSessionHeader);
  return MakeError(detail, "no session has this token; it was closed, its lease ran out, or it was never given out");
}

absl::Status ExpiredSession() {
  v1::ErrorDetail detail;
  detail.set_code(v1::SESSION_EXPIRED);
  detail.set_field(kSessionHeader);
  return MakeError(detail, "no session has this token; it was closed, its lease ran out, or it was never given out");
}

absl::Status SessionOf(absl::string_view server) {
  v1::ErrorDetail detail;
  detail.set_code(v1::WRONG_SERVER);
  detail.set_field(kSessionHeader);
  detail.set_server(std::string(server));
  return MakeError(detail, absl::StrCat("this session is of the server at ", server,
                                        "; call it there, or have the balancer keep a connection at one server"));
}

absl::Status TooManyHandles(uint64_t max_handles, absl::string_view field) {
  return OverLimit("handles", max_handles, max_handles + 1,
                   absl::StrCat("there are ", max_handles, " handles, as many as ",
                                field.empty() ? "this server" : "one session", " keeps; free some"),
                   field);
}

absl::Status Session::Own(uint64_t handle, uint64_t max_handles, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (ended_) return UnknownSession();
  if (handles_.size() >= max_handles) return TooManyHandles(max_handles, kSessionHeader);
  KILN_RETURN_IF_ERROR(owned_.Grow(1));
  handles_.insert(handle);
  bytes_ += bytes;
  return absl::OkStatus();
}

void Session::Disown(uint64_t handle, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  const size_t owned = handles_.erase(handle);
  owned_.Shrink(owned);
  bytes_ -= owned * bytes;
}

Session::Use Session::use() const {
  const HandleNames::Use named = names_.use();
  absl::MutexLock lock(&mutex_);
  return {handles_.size() + named.handles, bytes_ + named.bytes};
}

std::shared_ptr<SessionStream> Session::Stream(const std::function<std::shared_ptr<SessionStream>()>& make) {
  absl::MutexLock lock(&mutex_);
  if (ended_) return nullptr;
  if (stream_ == nullptr) stream_ = make();
  return stream_;
}

void Session::ServeStream(std::weak_ptr<const SessionStream> stream) {
  absl::MutexLock lock(&mutex_);
  served_ = std::move(stream);
}

std::shared_ptr<const SessionStream> Session::stream() const {
  absl::MutexLock lock(&mutex_);
  return stream_ != nullptr ? stream_ : served_.lock();
}

std::vector<uint64_t> Session::End() {
  std::shared_ptr<SessionStream> stream;
  std::vector<uint64_t> handles;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    handles.assign(handles_.begin(), handles_.end());
    absl::flat_hash_set<uint64_t>().swap(handles_);
    owned_.Release();
    bytes_ = 0;
    stream = std::move(stream_);
  }
  if (stream != nullptr) stream->OnSessionEnd();
  return handles;
}

}  // namespace kiln::server
