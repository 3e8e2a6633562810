#include "server/compile_worker/fault_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/blake3.h"
#include "base/graph/graph_hash.h"

namespace kiln::server {
namespace {

// Others are the operator's, and stay.
constexpr char kEnding[] = ".pb", kDraft[] = ".draft";

absl::Status Cannot(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " in ", path, ": ", std::strerror(errno)));
}

}  // namespace

std::string FaultName(const v1::Graph& graph) {
  if (const auto hash = HashGraph(graph); hash.ok()) return hash->Hex();
  return GraphHash::FromBytes(Blake3Of(graph.SerializeAsString()).view())->Hex();
}

absl::StatusOr<std::unique_ptr<FaultFolder>> FaultFolder::Open(const std::string& path) {
  auto folder = store::OpenFolder(path, /*create=*/true);
  if (!folder.ok()) return std::move(folder).status();
  return std::make_unique<FaultFolder>(*std::move(folder), path);
}

absl::StatusOr<std::string> FaultFolder::Keep(absl::string_view name, const v1::Graph& graph) {
  const std::string file = absl::StrCat(name, kEnding), draft = absl::StrCat(file, kDraft);
  std::string path = absl::StrCat(path_, "/", file);
  absl::MutexLock lock(&mutex_);
  if (folder_->Touch(file) == 0) return path;  // as one that is there
  const std::string bytes = graph.SerializeAsString();
  if (absl::Status room = MakeRoom(bytes.size()); !room.ok()) return room;
  folder_->Remove(draft);
  const int descriptor = folder_->Create(draft);
  if (descriptor < 0) return Cannot("make a file", path_);
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t more = folder_->Write(descriptor, bytes.data() + written, bytes.size() - written);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    written += static_cast<size_t>(more);
  }
  absl::Status status = written == bytes.size() ? absl::OkStatus() : Cannot("write", path_);
  folder_->Close(descriptor);
  if (status.ok() && folder_->Rename(draft, file) != 0) status = Cannot("rename", path_);
  if (status.ok()) return path;
  folder_->Remove(draft);
  return status;
}

absl::Status FaultFolder::MakeRoom(uint64_t bytes) {
  if (bytes > kMaxBytes) return absl::ResourceExhaustedError("it is larger than all that are kept");
  auto files = folder_->List();
  if (!files.ok()) return std::move(files).status();
  files->erase(std::remove_if(files->begin(), files->end(),
                              [](const store::FileInfo& file) { return !absl::EndsWith(file.name, kEnding); }),
               files->end());
  std::sort(files->begin(), files->end(), [](const auto& a, const auto& b) { return a.used_ns > b.used_ns; });
  uint64_t kept = bytes;
  for (size_t i = 0; i < files->size(); ++i) {
    kept += (*files)[i].bytes;
    if (i + 1 >= kMaxFiles || kept > kMaxBytes) folder_->Remove((*files)[i].name);
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
