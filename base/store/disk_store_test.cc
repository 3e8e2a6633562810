#include "base/store/disk_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/store/faulty_folder.h"

namespace kiln::store {
namespace {

using testing::MakeEntry;
using testing::NewFolder;

class DiskStoreTest : public ::testing::Test {
 protected:
  ~DiskStoreTest() override { std::filesystem::remove_all(path_); }

  std::unique_ptr<DiskStore> Open(const DiskStoreOptions& options = {}) {
    auto store = DiskStore::Open(path_, options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::string FileOf(const Entry& entry) { return absl::StrCat(path_, "/", DiskStore::FileName(entry.header.key())); }
  // As if it had been used `seconds` after 1970.
  void SetUsed(const Entry& entry, int64_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, FileOf(entry).c_str(), times, 0), 0);
  }
  void ExpectRejected(DiskStore& store, const Entry& wanted) {
    const uint64_t rejects = store.stats().rejects;
    const auto loaded = store.Load(wanted.header);
    ASSERT_FALSE(loaded.ok());
    ASSERT_TRUE(DetailOf(loaded.status()).has_value()) << loaded.status();
    EXPECT_EQ(DetailOf(loaded.status())->code(), v1::CORRUPT_ENTRY);
    EXPECT_EQ(store.stats().rejects, rejects + 1);
    EXPECT_FALSE(std::filesystem::exists(FileOf(wanted))) << "it is removed";
    EXPECT_EQ(store.Load(wanted.header).status().code(), absl::StatusCode::kNotFound);
  }

  const std::string path_ = NewFolder();
};

TEST_F(DiskStoreTest, WhatIsPublishedIsFoundByEveryStoreOfTheFolder) {
  const auto one = Open(), other = Open();
  Entry entry = MakeEntry(1);
  EXPECT_EQ(one->Load(entry.header).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(one->Publish(entry).ok());
  for (DiskStore* store : {one.get(), other.get()}) {
    const auto loaded = store->Load(entry.header);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->executable, entry.executable);
    EXPECT_EQ(loaded->graph, entry.graph);
  }
  EXPECT_EQ(one->stats().hits, 1u);
  EXPECT_EQ(one->stats().misses, 1u);
  EXPECT_EQ(one->stats().stores, 1u);
  struct stat info;
  ASSERT_EQ(stat(FileOf(entry).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(DiskStoreTest, AFlippedBitAnywhereIsRejectedAndRemoved) {
  const auto store = Open();
  Entry entry = MakeEntry(1);
  // Magic, version, both lengths, header, payload and checksum.
  const size_t size = EncodeEntry(entry)->size();
  for (const size_t at : {size_t{0}, size_t{8}, size_t{12}, size_t{16}, size_t{23}, size_t{30}, size / 2, size - 33,
                          size - 32, size - 1}) {
    ASSERT_TRUE(store->Publish(entry).ok());
    std::fstream file(FileOf(entry), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    file.close();
    SCOPED_TRACE(at);
    ExpectRejected(*store, entry);
  }
}

TEST_F(DiskStoreTest, ATornEntryIsRejectedAndRemoved) {
  const auto store = Open();
  Entry entry = MakeEntry(1);
  for (const size_t size : {size_t{0}, size_t{7}, size_t{24}, size_t{100}, EncodeEntry(entry)->size() - 1}) {
    ASSERT_TRUE(store->Publish(entry).ok());
    std::filesystem::resize_file(FileOf(entry), size);
    SCOPED_TRACE(size);
    ExpectRejected(*store, entry);
  }
}

TEST_F(DiskStoreTest, AnEntryWithoutTheKeysSealIsRejectedAndRemoved) {
  const auto plain = Open(), sealed = Open({.key = Digest{{1}}}), other = Open({.key = Digest{{2}}});
  Entry entry = MakeEntry(1);
  for (DiskStore* writer : {plain.get(), sealed.get(), other.get()}) {
    for (DiskStore* reader : {plain.get(), sealed.get(), other.get()}) {
      ASSERT_TRUE(writer->Publish(entry).ok());
      if (reader == writer) {
        EXPECT_TRUE(reader->Load(entry.header).ok());
      } else {
        ExpectRejected(*reader, entry);
      }
    }
  }
}

TEST_F(DiskStoreTest, AKeyIsAFileOfFewReaders) {
  const std::string path = path_ + ".key";
  const auto write = [&path](const std::string& bytes, mode_t mode) {
    std::ofstream(path, std::ios::binary) << bytes;
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  };
  const auto fault = [&path] { return std::string(ReadSealKey(path).status().message()); };
  EXPECT_TRUE(absl::StrContains(fault(), "No such file")) << fault();
  write(std::string(32, 'k'), 0600);
  EXPECT_EQ((**ReadSealKey(path)).view(), std::string(32, 'k'));
  for (const mode_t mode : {0400, 0440, 0640}) {
    write(std::string(32, 'k'), mode | 0200);
    EXPECT_TRUE(ReadSealKey(path).ok()) << mode;
  }
  for (const mode_t mode : {0644, 0602, 0620, 0601}) {
    write(std::string(32, 'k'), mode);
    EXPECT_TRUE(absl::StrContains(fault(), "others may")) << mode << fault();
  }
  for (const size_t size : {0, 31, 33, 1000}) {
    write(std::string(size, 'k'), 0600);
    EXPECT_TRUE(absl::StrContains(fault(), "32 bytes")) << size << fault();
  }
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::StrContains(std::string(ReadSealKey(path_).status().message()), "no file"));
}

TEST_F(DiskStoreTest, AnEntryUnderAnothersNameIsRejected) {
  const auto store = Open();
  Entry entry = MakeEntry(1);
  const Entry wanted = MakeEntry(2);
  ASSERT_TRUE(store->Publish(entry).ok());
  std::filesystem::rename(FileOf(entry), FileOf(wanted));
  ExpectRejected(*store, wanted);
}

TEST_F(DiskStoreTest, AnEntryForAnotherGraphIsRejectedThoughItsKeyIsRight) {
  const auto store = Open();
  Entry entry = MakeEntry(1);
  Entry wanted = MakeEntry(2);
  wanted.header.set_key(entry.header.key());
  ASSERT_TRUE(store->Publish(entry).ok());
  ExpectRejected(*store, wanted);
}

TEST_F(DiskStoreTest, AnEntryThatNeedsMoreThanThisMachineHasIsRefused) {
  const auto store = Open();
  Entry entry = MakeEntry(1);
  const Entry wanted = entry;
  entry.header.mutable_target()->add_features("+avx10.2");
  ASSERT_TRUE(store->Publish(entry).ok());
  const auto loaded = store->Load(wanted.header);
  EXPECT_TRUE(absl::StrContains(loaded.status().message(), "it needs +avx10.2, which this machine lacks"))
      << loaded.status();
}

TEST_F(DiskStoreTest, WhatIsNoFileIsNoEntryAndNoTrap) {
  const auto store = Open();
  Entry entry = MakeEntry(1);
  ASSERT_EQ(mkfifo(FileOf(entry).c_str(), 0600), 0);
  EXPECT_FALSE(store->Load(entry.header).ok());
  std::filesystem::remove(FileOf(entry));
  std::filesystem::create_symlink("elsewhere", FileOf(entry));
  EXPECT_FALSE(store->Load(entry.header).ok());
  EXPECT_TRUE(store->Publish(entry).ok());
  EXPECT_TRUE(store->Load(entry.header).ok());
}

TEST_F(DiskStoreTest, TheLeastRecentlyUsedGoesFirst) {
  Entry entries[6];
  uint64_t size = 0;
  {
    const auto store = Open();
    for (int i = 0; i < 5; ++i) {
      entries[i] = MakeEntry(i);
      ASSERT_TRUE(store->Publish(entries[i]).ok());
      SetUsed(entries[i], 1000 + i);
      size = std::max<uint64_t>(size, std::filesystem::file_size(FileOf(entries[i])));
    }
    ASSERT_TRUE(store->Load(entries[0].header).ok());  // touches it
  }
  const auto store = Open({.limit_bytes = 5 * size + size / 2});
  EXPECT_EQ(store->stats().evictions, 0u);
  entries[5] = MakeEntry(5);
  ASSERT_TRUE(store->Publish(entries[5]).ok());
  EXPECT_EQ(store->stats().evictions, 1u);
  for (const int i : {0, 2, 3, 4, 5}) EXPECT_TRUE(store->Load(entries[i].header).ok()) << i;
  EXPECT_EQ(store->Load(entries[1].header).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DiskStoreTest, OneOwnersEntriesMakeRoomAlone) {
  const auto store = Open();
  Entry entries[6];
  for (int i = 0; i < 6; ++i) {
    entries[i] = MakeEntry(i);
    entries[i].header.set_owner(i < 4 ? "a" : "b");
    ASSERT_TRUE(store->Publish(entries[i]).ok());
    SetUsed(entries[i], 1000 + i);
    EXPECT_EQ(std::filesystem::file_size(FileOf(entries[i])), EncodedBytes(entries[i]));
  }
  const uint64_t size = EncodedBytes(entries[0]);
  const auto all = store->EvictOf("a", 4 * size);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->entries, 0u);
  EXPECT_EQ(all->left_bytes, 4 * size);
  SetUsed(entries[0], 2000);
  const auto some = store->EvictOf("a", 2 * size + size / 2);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(some->entries, 2u);
  EXPECT_EQ(some->left_bytes, 2 * size);
  for (const int i : {0, 3, 4, 5}) EXPECT_TRUE(store->Load(entries[i].header).ok()) << i;
  for (const int i : {1, 2}) EXPECT_FALSE(store->Load(entries[i].header).ok()) << i;
  EXPECT_EQ(store->EvictOf("c", 0)->left_bytes, 0u);
  EXPECT_EQ(store->EvictOf("b", 0)->entries, 2u);
}

TEST_F(DiskStoreTest, ServersThatShareAFolderKeepItBounded) {
  const uint64_t size = [] {
    Entry entry = MakeEntry(0);
    return EncodeEntry(entry)->size();
  }();
  const DiskStoreOptions options{.limit_bytes = 32 * size};
  const std::unique_ptr<DiskStore> stores[] = {Open(options), Open(options), Open(options)};
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        Entry entry = MakeEntry(100 * t + i);
        ASSERT_TRUE(stores[t]->Publish(entry).ok());
        const auto loaded = stores[(t + 1) % 3]->Load(entry.header);
        torn += !loaded.ok() && loaded.status().code() != absl::StatusCode::kNotFound;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  uint64_t bytes = 0;
  const auto entries = stores[0]->List();
  for (const ListedEntry& entry : *entries) {
    EXPECT_TRUE(entry.header.ok()) << entry.header.status();
    bytes += entry.file.bytes;
  }
  EXPECT_LE(bytes, options.limit_bytes + 3 * (options.limit_bytes / 16));
  EXPECT_GT(bytes, options.limit_bytes / 2);
}

TEST_F(DiskStoreTest, AnEntryLargerThanTheBoundIsNotStored) {
  const auto store = Open({.limit_bytes = 500});
  Entry entry = MakeEntry(1);
  EXPECT_EQ(store->Publish(entry).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(std::filesystem::is_empty(path_) || store->List()->empty());
}

TEST_F(DiskStoreTest, AKeysLockIsOfOneAtATime) {
  const auto one = Open(), other = Open({.timeout = absl::ZeroDuration()});
  const std::string a(32, 'a'), b(32, 'b');
  {
    const DiskStore::Lock lock = one->LockKey(a);
    EXPECT_TRUE(lock.held());
    EXPECT_FALSE(other->LockKey(a).held()) << "the timeout is over";
    EXPECT_FALSE(one->LockKey(a, [] { return true; }).held()) << "nobody wants it any more";
    EXPECT_TRUE(other->LockKey(b).held()) << "another key's lock is free";
  }
  EXPECT_TRUE(other->LockKey(a).held());
}

TEST_F(DiskStoreTest, ADeadHoldersLockIsFree) {
  const std::string key(32, 'a');
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto store = DiskStore::Open(path_, {});
    const DiskStore::Lock lock = (*store)->LockKey(key);
    const char byte = lock.held() ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_FALSE(Open({.timeout = absl::ZeroDuration()})->LockKey(key).held());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(Open({.timeout = absl::ZeroDuration()})->LockKey(key).held());
  close(ready[0]);
  close(ready[1]);
}

TEST_F(DiskStoreTest, AFolderThatOthersMayWriteIsRefused) {
  for (const unsigned mode : {0777u, 0770u, 0720u, 0702u}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    const auto store = DiskStore::Open(path_, {});
    EXPECT_EQ(store.status().code(), absl::StatusCode::kPermissionDenied) << std::oct << mode << store.status();
  }
  ASSERT_EQ(chmod(path_.c_str(), 0700), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path_.c_str(), 12345, 0), 0);
    EXPECT_EQ(DiskStore::Open(path_, {}).status().code(), absl::StatusCode::kPermissionDenied);
    ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  }
  const std::string fresh = path_ + "/fresh";
  ASSERT_TRUE(DiskStore::Open(fresh, {}).ok());
  struct stat info;
  ASSERT_EQ(stat(fresh.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  EXPECT_FALSE(DiskStore::Open(path_ + "/none/such", {}).ok());
}

}  // namespace
}  // namespace kiln::store
