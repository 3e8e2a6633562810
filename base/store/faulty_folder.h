// For tests: a folder whose operations fail when they are told to, and entries to put
// into it.
#ifndef KILN_BASE_STORE_FAULTY_FOLDER_H_
#define KILN_BASE_STORE_FAULTY_FOLDER_H_

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/store/entry.h"
#include "base/store/folder.h"

namespace kiln::store::testing {

// What happens at one step and after.
enum class Fault {
  kNone,
  kFull,    // this step has no room; nor has any that makes or writes a file from here on
  kShort,   // this write takes a half and the next has no room; for other steps as kFull
  kBroken,  // this step alone fails, with EIO
  kKilled,  // this step and all behind it do not happen, as for a process that is gone
};

// Counts the operations that change something, and lets number `step` fail.
class FaultyFolder final : public Folder {
 public:
  FaultyFolder(std::unique_ptr<Folder> real, Fault fault, int step)
      : real_(std::move(real)), fault_(fault), at_(step) {}
  // Closes what a killed process's end would close.
  ~FaultyFolder() override;

  int Create(const std::string& name) override;
  ssize_t Write(int file, const char* data, size_t bytes) override;
  int Sync(int file) override { return Step("sync") ? real_->Sync(file) : -1; }
  int Close(int file) override;
  int Rename(const std::string& from, const std::string& to) override {
    return Step("rename") ? real_->Rename(from, to) : -1;
  }
  int SyncNames() override { return Step("sync names") ? real_->SyncNames() : -1; }
  int Remove(const std::string& name) override { return Step("remove") ? real_->Remove(name) : -1; }
  int Touch(const std::string& name) override { return Step("touch") ? real_->Touch(name) : -1; }
  absl::StatusOr<Contents> Read(const std::string& name, uint64_t max_bytes) override {
    return real_->Read(name, max_bytes);
  }
  absl::StatusOr<std::vector<FileInfo>> List() override { return real_->List(); }
  int TryLock(uint64_t number) override { return real_->TryLock(number); }
  void RemoveAbandoned(const std::string& name) override {
    if (Step("remove abandoned")) real_->RemoveAbandoned(name);
  }

  // The steps so far, by name.
  const std::vector<std::string>& steps() const { return steps_; }
  bool reached() const { return static_cast<int>(steps_.size()) > at_; }

 private:
  // Whether the step happens; sets errno if not.
  bool Step(const char* name);

  const std::unique_ptr<Folder> real_;
  const Fault fault_;
  const int at_;
  std::vector<std::string> steps_;
  std::set<int> open_;
};

// A new folder that is gone with the test.
std::string NewFolder();

// Entry number `number`: a graph and a header that agree, `bytes` of executable.
Entry MakeEntry(int number, size_t bytes = 1000);

}  // namespace kiln::store::testing

#endif  // KILN_BASE_STORE_FAULTY_FOLDER_H_
