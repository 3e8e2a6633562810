#include "base/store/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kiln::store {
namespace {

constexpr char kLockFile[] = "lock";

// Each is lost only to another process that happens to look at that moment.
constexpr int kMaxTries = 1000;

int64_t Nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

class Descriptor {
 public:
  explicit Descriptor(int file) : file_(file) {}
  ~Descriptor() {
    if (file_ >= 0) close(file_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return file_; }
  int Release() {
    const int file = file_;
    file_ = -1;
    return file;
  }

 private:
  int file_;
};

absl::Status Failure(const std::string& name) { return absl::ErrnoToStatus(errno, absl::StrCat("reading ", name)); }

class RealFolder final : public Folder {
 public:
  explicit RealFolder(int folder) : folder_(folder) {}

  int Create(const std::string& name) override {
    // Between its birth and its lock a file looks abandoned, and another process may
    // take it away: then it has no name left, or is just losing it.
    for (int tries = 0; tries < kMaxTries; ++tries) {
      Descriptor file(openat(folder_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (file.get() < 0 && errno == EEXIST && tries > 0) {
        sched_yield();
        continue;
      }
      if (file.get() < 0) return -1;
      if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
        struct stat info;
        if (fstat(file.get(), &info) != 0) return -1;
        if (info.st_nlink > 0) return file.Release();
      } else if (errno != EWOULDBLOCK) {
        return -1;
      }
    }
    errno = EBUSY;
    return -1;
  }
  ssize_t Write(int file, const char* data, size_t bytes) override { return write(file, data, bytes); }
  int Sync(int file) override { return fsync(file); }
  int Close(int file) override { return close(file); }
  int Rename(const std::string& from, const std::string& to) override {
    return renameat(folder_.get(), from.c_str(), folder_.get(), to.c_str());
  }
  int SyncNames() override { return fsync(folder_.get()); }
  int Remove(const std::string& name) override { return unlinkat(folder_.get(), name.c_str(), 0); }
  int Touch(const std::string& name) override {
    return utimensat(folder_.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  }

  absl::StatusOr<Contents> Read(const std::string& name, uint64_t max_bytes) override {
    // O_NONBLOCK: a pipe of that name must not hold us.
    const Descriptor file(openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info;
    if (file.get() < 0 || fstat(file.get(), &info) != 0) return Failure(name);
    if (!S_ISREG(info.st_mode)) return absl::FailedPreconditionError(absl::StrCat(name, " is not a regular file"));
    Contents contents;
    contents.size = static_cast<uint64_t>(info.st_size);
    contents.bytes.resize(std::min<uint64_t>(max_bytes, contents.size));
    size_t got = 0;
    while (got < contents.bytes.size()) {
      const ssize_t read = ::read(file.get(), &contents.bytes[got], contents.bytes.size() - got);
      if (read < 0 && errno == EINTR) continue;
      if (read < 0) return Failure(name);
      if (read == 0) break;  // it has become shorter
      got += static_cast<size_t>(read);
    }
    contents.bytes.resize(got);
    return contents;
  }

  absl::StatusOr<std::vector<FileInfo>> List() override {
    const int again = openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const stream = again < 0 ? nullptr : fdopendir(again);
    if (stream == nullptr) {
      if (again >= 0) close(again);
      return Failure("the folder");
    }
    std::vector<FileInfo> files;
    while (const dirent* item = readdir(stream)) {
      struct stat info;
      // What is gone by now is not there.
      if (fstatat(folder_.get(), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
      files.push_back({item->d_name, static_cast<uint64_t>(info.st_size), Nanoseconds(info.st_mtim)});
    }
    closedir(stream);
    return files;
  }

  // One byte of a file for each lock, so that locks need neither files nor room on the
  // disk. Such a lock belongs to the descriptor, so it also keeps apart the threads of
  // one process.
  int TryLock(uint64_t number) override {
    Descriptor file(openat(folder_.get(), kLockFile, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.get() < 0) return -1;
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(number >> 2);  // offsets are signed, and their sums must fit
    lock.l_len = 1;
    if (fcntl(file.get(), F_OFD_SETLK, &lock) != 0) return -1;
    return file.Release();
  }

  void RemoveAbandoned(const std::string& name) override {
    const Descriptor file(openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    // Under its lock: a writer that has it is spared, one that comes for it sees that
    // the name is gone.
    if (file.get() >= 0 && flock(file.get(), LOCK_EX | LOCK_NB) == 0) unlinkat(folder_.get(), name.c_str(), 0);
  }

 private:
  const Descriptor folder_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Folder>> OpenFolder(const std::string& path, bool create) {
  if (create && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the folder ", path));
  }
  Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (folder.get() < 0 || fstat(folder.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the folder ", path));
  }
  if (info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat(path, " belongs to user ", info.st_uid, ", and this is user ",
                                                    geteuid(), "; a program cache is its owner's alone"));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::PermissionDeniedError(
        absl::StrFormat("others may write to %s (mode %o), and what is in it runs as this user; chmod go-w it", path,
                        info.st_mode & 07777));
  }
  return std::make_unique<RealFolder>(folder.Release());
}

}  // namespace kiln::store
