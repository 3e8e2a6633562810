// Graphs on which the compiler failed without an answer, as files for whoever mends it.
//
// Each is kept once, by its hash: NAME.pb, which `kiln` and kiln_reduce read. A client can have any number of them
// made, so they are bounded, and the one that was last seen longest ago goes first. Tested by
// server/compile_worker/faults_test.cc.
#ifndef KILN_SERVER_COMPILE_WORKER_FAULT_FOLDER_H_
#define KILN_SERVER_COMPILE_WORKER_FAULT_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/store/folder.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::server {

// The graph's hash in hexadecimal digits; of one that has none, that of its bytes.
std::string FaultName(const v1::Graph& graph);

// Safe from any thread.
class FaultFolder {
 public:
  static constexpr size_t kMaxFiles = 32;
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

  // The folder is made if it is not there. The errors of store::OpenFolder.
  static absl::StatusOr<std::unique_ptr<FaultFolder>> Open(const std::string& path);
  FaultFolder(std::unique_ptr<store::Folder> folder, std::string path)
      : folder_(std::move(folder)), path_(std::move(path)) {}

  // The file in which `graph` is from now on. Blocks for the disk. RESOURCE_EXHAUSTED for one that is larger than all
  // may be; UNAVAILABLE with what the system says.
  absl::StatusOr<std::string> Keep(absl::string_view name, const v1::Graph& graph);

 private:
  absl::Status MakeRoom(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  const std::unique_ptr<store::Folder> folder_;
  const std::string path_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_WORKER_FAULT_FOLDER_H_
