// Files for the vendors' tools, which take and give nothing else.
#ifndef KILN_COMPILER_TARGET_GPU_TEMPORARY_FOLDER_H_
#define KILN_COMPILER_TARGET_GPU_TEMPORARY_FOLDER_H_

#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::compiler {

// A folder of its own under that for temporary files, gone with all that is in it when this ends.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string Path(absl::string_view name) const;

  // INTERNAL_FAULT with what the system says, also if there is no folder.
  absl::Status Write(absl::string_view name, const std::string& bytes) const;
  absl::StatusOr<std::string> Read(absl::string_view name) const;

 private:
  std::error_code failure_;
  std::string path_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_TEMPORARY_FOLDER_H_
