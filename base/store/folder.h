// One folder, by the few operations that a store of files needs of it.
//
// Each operation is one system call or nearly so, and fails as that does: -1, with
// the cause in errno. So a test can put itself in between and let any step of a
// write fail, or be the last one before the power goes.
//
// Names are of files in the folder, never paths. The folder is held open, so what
// happens to its path later does not matter.
#ifndef KILN_BASE_STORE_FOLDER_H_
#define KILN_BASE_STORE_FOLDER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::store {

struct FileInfo {
  std::string name;
  uint64_t bytes = 0;
  int64_t used_ns = 0;  // since 1970: when it was last touched
};

// Safe from any thread, and beside other processes that use the same folder.
class Folder {
 public:
  virtual ~Folder() = default;

  // A new file that only its owner may read; a descriptor to write it. It is locked
  // for as long as the descriptor is open, so that others see that its writer lives.
  virtual int Create(const std::string& name) = 0;
  // At most `bytes`, as write(2): it may take fewer.
  virtual ssize_t Write(int file, const char* data, size_t bytes) = 0;
  // Returns when the file's contents would outlive a loss of power.
  virtual int Sync(int file) = 0;
  virtual int Close(int file) = 0;
  // Replaces `to` if there is one, atomically.
  virtual int Rename(const std::string& from, const std::string& to) = 0;
  // Returns when renames would outlive a loss of power.
  virtual int SyncNames() = 0;
  virtual int Remove(const std::string& name) = 0;
  // Says that it was used now.
  virtual int Touch(const std::string& name) = 0;

  // The file's first `max_bytes` bytes and its size; NOT_FOUND, or why it cannot be read.
  // Only regular files are read.
  struct Contents {
    std::string bytes;
    uint64_t size = 0;
  };
  virtual absl::StatusOr<Contents> Read(const std::string& name, uint64_t max_bytes) = 0;
  virtual absl::StatusOr<std::vector<FileInfo>> List() = 0;

  // Takes lock number `number` among all processes that use the folder, if it is
  // free; a descriptor whose closing gives it back, as the end of the process does.
  // EAGAIN if another has it, be it in this process.
  virtual int TryLock(uint64_t number) = 0;
  // Removes a file of Create's whose writer does not hold it open any more. Nothing if
  // one does, or it is gone.
  virtual void RemoveAbandoned(const std::string& name) = 0;
};

// Opens the folder at `path`; with `create` makes it if it is not there, for its owner
// alone. PERMISSION_DENIED if it is another user's or others may write to it: what is
// in it will run as part of this process.
absl::StatusOr<std::unique_ptr<Folder>> OpenFolder(const std::string& path, bool create);

}  // namespace kiln::store

#endif  // KILN_BASE_STORE_FOLDER_H_
