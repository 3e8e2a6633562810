// Compiled programs in a folder: they outlive the server, and several servers may share
// them.
//
// Each program is one file, named by its key, so what belongs together is published
// together. An entry is written under another name, synced, and renamed: whatever ends
// the writer, and at whatever step, the entry is absent or whole. Reading believes
// nothing but the checksum and the header (entry.h): an entry that is not right is
// removed and counted, and to the caller it is as if it had never been there.
//
// The folder's size is bounded. An entry is touched when it is read, and, since a server
// reads each once and then has it in memory, once more for what it has used before it
// evicts; the one that has not been touched for longest goes first. A file that is removed while another
// server reads it stays whole for that one.
//
// That two servers do not compile the same program at once is what LockKey is for. The
// lock is advice: a caller that has waited too long continues without it, so a holder
// that hangs costs time and nothing else; one that dies releases it.
#ifndef KILN_BASE_STORE_DISK_STORE_H_
#define KILN_BASE_STORE_DISK_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/store/entry.h"
#include "base/store/folder.h"

namespace kiln::store {

struct DiskStoreOptions {
  // Of all entries together. Servers that share a folder each count what they add, so
  // for a while it may hold a sixteenth more for each of them.
  uint64_t limit_bytes = uint64_t{8} << 30;
  // What entries are sealed with: one without this seal is not right. Servers that share a
  // folder have one key, or none.
  SealKey key;
  // How long LockKey waits at most.
  absl::Duration timeout = absl::Seconds(30);
};

struct DiskStats {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t rejects = 0;  // entries that were there and not right
  uint64_t stores = 0;
  uint64_t store_failures = 0;
  uint64_t evictions = 0;
};

// One entry as `kiln cache ls` shows it.
struct ListedEntry {
  FileInfo file;
  absl::StatusOr<v1::StoredHeader> header;  // CORRUPT_ENTRY if that much is wrong already
};

// Safe from any thread. Every call may block for the disk.
class DiskStore {
 public:
  // Opens `path`, making the folder if it is not there, and removes what writers that
  // died have left. The errors of OpenFolder.
  static absl::StatusOr<std::unique_ptr<DiskStore>> Open(const std::string& path, const DiskStoreOptions& options);
  DiskStore(std::unique_ptr<Folder> folder, const DiskStoreOptions& options);

  // The entry under `wanted.key` if it is what `wanted` says (CheckWanted). NOT_FOUND if
  // there is none. CORRUPT_ENTRY if it is not right, and is removed now; UNAVAILABLE and
  // the like if the disk fails, which leaves it. `again`: the caller's earlier look found
  // nothing and was counted as a miss.
  absl::StatusOr<Entry> Load(const v1::StoredHeader& wanted, bool again = false);

  // Removes an entry that Load took for good, and that is not, and counts it so.
  void Reject(absl::string_view key);

  // Removes what is under the key, if something is, and counts it as evicted.
  bool Remove(absl::string_view key);

  // Writes the entry, replacing what is under its key, and evicts what is too much. A
  // failure leaves nothing behind but the room that others may take: RESOURCE_EXHAUSTED
  // for a full disk, OUT_OF_RANGE if it is larger than an entry or the folder may be.
  absl::Status Publish(Entry& entry);

  // The entry under this key is in use.
  void Touch(absl::string_view key) { folder_->Touch(FileName(key)); }
  // `touch` is called before Publish evicts, to Touch what has been used unseen. To be set
  // before the first Publish.
  void BeforeEviction(std::function<void()> touch) { touch_used_ = std::move(touch); }

  // Held until destroyed.
  class Lock {
   public:
    Lock() = default;
    Lock(Folder* folder, int file) : folder_(folder), file_(file) {}
    Lock(Lock&& other) noexcept : folder_(other.folder_), file_(other.file_) { other.file_ = -1; }
    Lock& operator=(Lock&&) = delete;
    ~Lock() {
      if (file_ >= 0) folder_->Close(file_);
    }
    bool held() const { return file_ >= 0; }

   private:
    Folder* folder_ = nullptr;
    int file_ = -1;
  };
  // Waits until no other caller holds the key's lock. Gives up, with a lock that is not
  // held, after `timeout`, when `enough` says so, or where locks cannot be had at all.
  Lock LockKey(absl::string_view key, const std::function<bool()>& enough = nullptr);

  // Removes the least recently used until the rest fits into `limit_bytes`, and what
  // dead writers left. One at a time among all servers: does nothing while another does
  // it.
  struct Eviction {
    bool busy = false;
    uint64_t entries = 0;
    uint64_t bytes = 0;
    uint64_t left_bytes = 0;
  };
  absl::StatusOr<Eviction> Evict(uint64_t limit_bytes);
  // The same of the entries of one owner (StoredHeader.owner) alone, of which left_bytes are left.
  absl::StatusOr<Eviction> EvictOf(absl::string_view owner, uint64_t limit_bytes);

  // Most recently used first.
  absl::StatusOr<std::vector<ListedEntry>> List();
  // The whole entry in the file of this name, checked as far as it says itself what it
  // is (DecodeEntry). Neither counted nor removed.
  absl::StatusOr<Entry> Read(const std::string& name);

  DiskStats stats() const;
  const SealKey& key() const { return options_.key; }
  uint64_t limit_bytes() const { return options_.limit_bytes; }

  // The name of a key's file. None of `kiln cache` or a server's if it is no key.
  static std::string FileName(absl::string_view key);

 private:
  absl::Status Write(const std::string& draft, const std::string& name, absl::string_view bytes);
  void RemoveAbandoned(const std::vector<FileInfo>& files);
  // The entries among `files`, the least recently used first.
  static std::vector<FileInfo> EntriesOf(std::vector<FileInfo> files);
  Eviction RemoveFrom(const std::vector<FileInfo>& entries, uint64_t limit_bytes);
  // Those of `entries` whose owner it is; each entry's head is read once.
  std::vector<FileInfo> OwnedBy(absl::string_view owner, std::vector<FileInfo> entries);

  const std::unique_ptr<Folder> folder_;
  const DiskStoreOptions options_;
  const std::string drafts_;  // how this process's drafts begin
  std::function<void()> touch_used_;
  std::atomic<uint64_t> next_draft_{0};
  std::atomic<uint64_t> hits_{0}, misses_{0}, rejects_{0}, stores_{0}, store_failures_{0}, evictions_{0};

  absl::Mutex owners_mutex_;
  // Of entries by name, as far as they were looked at.
  absl::flat_hash_map<std::string, std::string> owners_ ABSL_GUARDED_BY(owners_mutex_);

  absl::Mutex mutex_;
  // What the folder held when it was last looked at, and what was added since.
  uint64_t seen_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t added_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kiln::store

#endif  // KILN_BASE_STORE_DISK_STORE_H_
