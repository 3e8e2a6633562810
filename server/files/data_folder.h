// The one folder from which clients may have files loaded.
#ifndef KILN_SERVER_FILES_DATA_FOLDER_H_
#define KILN_SERVER_FILES_DATA_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::server {

// A regular file, open to be read. Read with pread, not mapped: a file that is cut
// short meanwhile is then an error, and no fault. Safe from any thread.
class DataFile {
 public:
  DataFile(int descriptor, uint64_t bytes) : descriptor_(descriptor), bytes_(bytes) {}
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  // As it was when it was opened.
  uint64_t bytes() const { return bytes_; }

  // All of `bytes` bytes from `offset` on. BAD_ARGUMENT if the file ends before, or
  // cannot be read.
  absl::Status Read(uint64_t offset, uint64_t bytes, void* to) const;

 private:
  const int descriptor_;
  const uint64_t bytes_;
};

// Safe from any thread.
class DataFolder {
 public:
  // NOT_FOUND if there is no such folder.
  static absl::StatusOr<std::unique_ptr<DataFolder>> Open(const std::string& path);
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  // `name` is a path below the folder: no "..", no symbolic link leads out of it.
  // BAD_ARGUMENT for what is not there, leads out, or is no regular file: a client
  // learns nothing of what is elsewhere.
  absl::StatusOr<std::shared_ptr<const DataFile>> Find(const std::string& name) const;

 private:
  explicit DataFolder(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FILES_DATA_FOLDER_H_
