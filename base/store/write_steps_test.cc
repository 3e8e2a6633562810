// Whatever stops a writer, and wherever: the entry is absent or whole.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/store/disk_store.h"
#include "base/store/faulty_folder.h"

namespace kiln::store {
namespace {

using testing::Fault;
using testing::FaultyFolder;
using testing::MakeEntry;
using testing::NewFolder;

std::unique_ptr<Folder> Real(const std::string& path) {
  auto folder = OpenFolder(path, /*create=*/false);
  EXPECT_TRUE(folder.ok()) << folder.status();
  return *std::move(folder);
}

size_t FilesIn(const std::string& path) {
  size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(path)) count += file.path().filename() != "lock";
  return count;
}

// As a server that starts on the folder finds it: nothing there but whole entries.
// Whether `entry` is.
bool IsThere(const std::string& path, const Entry& entry) {
  auto store = DiskStore::Open(path, {});
  EXPECT_TRUE(store.ok()) << store.status();
  const auto loaded = (*store)->Load(entry.header);
  EXPECT_EQ((*store)->stats().rejects, 0u) << loaded.status();
  EXPECT_EQ(FilesIn(path), loaded.ok() ? 1u : 0u) << "what a writer left is removed";
  if (!loaded.ok()) return false;
  EXPECT_EQ(loaded->executable, entry.executable);
  EXPECT_EQ(loaded->graph, entry.graph);
  return true;
}

TEST(WriteSteps, AnEntryIsSyncedBeforeItHasItsNameAndItsNameAfter) {
  const std::string path = NewFolder();
  auto folder = std::make_unique<FaultyFolder>(Real(path), Fault::kNone, 0);
  const FaultyFolder& watched = *folder;
  DiskStore store(std::move(folder), {});
  Entry entry = MakeEntry(1, 100);
  ASSERT_TRUE(store.Publish(entry).ok());
  std::vector<std::string> steps = watched.steps();
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  EXPECT_EQ(steps, (std::vector<std::string>{"create", "write", "sync", "rename", "close", "sync names"}));
}

class EveryStep : public ::testing::TestWithParam<Fault> {};

TEST_P(EveryStep, LeavesTheEntryAbsentOrWhole) {
  Entry entry = MakeEntry(1);
  int whole = 0, absent = 0;
  for (int step = 0;; ++step) {
    SCOPED_TRACE(step);
    const std::string path = NewFolder();
    absl::Status published;
    bool reached;
    {
      auto folder = std::make_unique<FaultyFolder>(Real(path), GetParam(), step);
      const FaultyFolder& watched = *folder;
      DiskStore store(std::move(folder), {});
      published = store.Publish(entry);
      reached = watched.reached();
      EXPECT_EQ(store.stats().store_failures, published.ok() ? 0u : 1u);
    }
    const bool there = IsThere(path, entry);
    EXPECT_TRUE(there || !published.ok()) << "what was reported as stored is there";
    ++(there ? whole : absent);
    std::filesystem::remove_all(path);
    if (!reached) break;
    ASSERT_LT(step, 100);
  }
  EXPECT_GE(absent, 5);
  EXPECT_GE(whole, 2);
}

TEST_P(EveryStep, LeavesAnOlderEntryOfThatKeyWhole) {
  Entry entry = MakeEntry(1);
  for (int step = 0;; ++step) {
    SCOPED_TRACE(step);
    const std::string path = NewFolder();
    ASSERT_TRUE(DiskStore(Real(path), {}).Publish(entry).ok());
    bool reached;
    {
      auto folder = std::make_unique<FaultyFolder>(Real(path), GetParam(), step);
      const FaultyFolder& watched = *folder;
      DiskStore store(std::move(folder), {});
      store.Publish(entry).IgnoreError();
      reached = watched.reached();
    }
    EXPECT_TRUE(IsThere(path, entry));
    std::filesystem::remove_all(path);
    if (!reached) break;
  }
}

std::string NameOf(const ::testing::TestParamInfo<Fault>& info) {
  switch (info.param) {
    case Fault::kNone: return "None";
    case Fault::kFull: return "Full";
    case Fault::kShort: return "Short";
    case Fault::kBroken: return "Broken";
    case Fault::kKilled: return "Killed";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryStep,
                         ::testing::Values(Fault::kFull, Fault::kShort, Fault::kBroken, Fault::kKilled), NameOf);

TEST(WriteSteps, ADraftIsLeftAloneWhileItsWriterLives) {
  const std::string path = NewFolder();
  const std::unique_ptr<Folder> writer = Real(path);
  const int file = writer->Create("draft-1");
  ASSERT_GE(file, 0);
  ASSERT_TRUE(DiskStore::Open(path, {}).ok());
  EXPECT_EQ(FilesIn(path), 1u);
  writer->Close(file);
  ASSERT_TRUE(DiskStore::Open(path, {}).ok());
  EXPECT_EQ(FilesIn(path), 0u);
}

// A file system that really is full.
TEST(WriteSteps, AFullDiskStoresWhatFitsAndNothingTorn) {
  const std::string path = NewFolder();
  if (mount("tmpfs", path.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) {
    std::filesystem::remove_all(path);
    GTEST_SKIP() << "no small file system can be mounted here: " << std::strerror(errno);
  }
  {
    auto store = DiskStore::Open(path, {});
    ASSERT_TRUE(store.ok()) << store.status();
    int stored = 0, refused = 0;
    // Of many sizes, so that the room ends at many places of an entry.
    for (int i = 0; i < 40; ++i) {
      Entry entry = MakeEntry(i, 500 + 397 * static_cast<size_t>(i));
      const absl::Status status = (*store)->Publish(entry);
      EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kResourceExhausted) << status;
      ++(status.ok() ? stored : refused);
      const auto loaded = (*store)->Load(entry.header);
      EXPECT_EQ(loaded.ok(), status.ok()) << loaded.status();
    }
    EXPECT_GT(stored, 0);
    EXPECT_GT(refused, 0);
    EXPECT_EQ((*store)->stats().rejects, 0u);
    EXPECT_EQ(FilesIn(path), static_cast<size_t>(stored));
  }
  umount(path.c_str());
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace kiln::store
