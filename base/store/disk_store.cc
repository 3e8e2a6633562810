#include "base/store/disk_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"

namespace kiln::store {
namespace {

constexpr absl::string_view kSuffix = ".kiln";
constexpr absl::string_view kDraft = "draft-";
constexpr size_t kKeyBytes = 32;
// Between two looks at a lock, and at whether it is still wanted.
constexpr absl::Duration kLongestPause = absl::Milliseconds(5);

// The lock of whoever evicts. A key has this number with probability 2^-64, and then
// eviction waits for a compilation.
constexpr uint64_t kEvictLock = ~uint64_t{0};

bool IsEntry(absl::string_view name) {
  return name.size() == 2 * kKeyBytes + kSuffix.size() && absl::EndsWith(name, kSuffix);
}

bool IsDraft(absl::string_view name) { return absl::StartsWith(name, kDraft); }

uint64_t LockNumber(absl::string_view key) {
  uint64_t number = 0;
  std::memcpy(&number, key.data(), std::min(key.size(), sizeof(number)));
  return number;
}

bool IsCorrupt(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() && detail->code() == v1::CORRUPT_ENTRY;
}

// Two processes of one folder may have one number, in containers of their own.
std::string DraftPrefix() {
  std::random_device random;
  return absl::StrCat(kDraft, getpid(), "-", absl::Hex((uint64_t{random()} << 32) | random()), "-");
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskStore>> DiskStore::Open(const std::string& path, const DiskStoreOptions& options) {
  KILN_ASSIGN_OR_RETURN(auto folder, OpenFolder(path, /*create=*/true));
  auto store = std::make_unique<DiskStore>(std::move(folder), options);
  KILN_RETURN_IF_ERROR(store->Evict(options.limit_bytes).status());
  return store;
}

DiskStore::DiskStore(std::unique_ptr<Folder> folder, const DiskStoreOptions& options)
    : folder_(std::move(folder)), options_(options), drafts_(DraftPrefix()) {}

std::string DiskStore::FileName(absl::string_view key) { return absl::StrCat(absl::BytesToHexString(key), kSuffix); }

absl::StatusOr<Entry> DiskStore::Read(const std::string& name) {
  KILN_ASSIGN_OR_RETURN(Folder::Contents contents, folder_->Read(name, kMaxEntryBytes));
  return DecodeEntry(std::move(contents.bytes), options_.key);
}

absl::StatusOr<Entry> DiskStore::Load(const v1::StoredHeader& wanted, bool again) {
  const std::string name = FileName(wanted.key());
  absl::StatusOr<Entry> entry = Read(name);
  absl::Status status = entry.status();
  if (status.ok()) status = CheckWanted(entry->header, wanted);
  if (status.ok()) {
    folder_->Touch(name);  // if it fails, the entry goes the sooner
    hits_.fetch_add(1, std::memory_order_relaxed);
    return entry;
  }
  if (status.code() == absl::StatusCode::kNotFound) {
    if (!again) misses_.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  rejects_.fetch_add(1, std::memory_order_relaxed);
  // Somebody may have put a good one in its place by now; then that is compiled again.
  if (IsCorrupt(status)) folder_->Remove(name);
  return status;
}

void DiskStore::Reject(absl::string_view key) {
  hits_.fetch_sub(1, std::memory_order_relaxed);
  rejects_.fetch_add(1, std::memory_order_relaxed);
  folder_->Remove(FileName(key));
}

absl::Status DiskStore::Write(const std::string& draft, const std::string& name, absl::string_view bytes) {
  const auto failure = [&](const char* what) { return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", draft)); };
  const int file = folder_->Create(draft);
  if (file < 0) return failure("making");
  absl::Status status;
  while (status.ok() && !bytes.empty()) {
    const ssize_t written = folder_->Write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (written == 0) errno = ENOSPC;
      status = failure("writing");
    } else {
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }
  if (status.ok() && folder_->Sync(file) != 0) status = failure("syncing");
  // The name changes while the file is still open, and so still locked: nobody takes it
  // for a dead writer's.
  const bool renamed = status.ok() && folder_->Rename(draft, name) == 0;
  if (status.ok() && !renamed) status = failure("renaming");
  folder_->Close(file);
  if (!renamed) folder_->Remove(draft);
  if (status.ok() && folder_->SyncNames() != 0) status = failure("syncing the folder of");
  return status;
}

absl::Status DiskStore::Publish(Entry& entry) {
  absl::StatusOr<std::string> bytes = EncodeEntry(entry, options_.key);
  absl::Status status = bytes.status();
  if (status.ok() && bytes->size() > options_.limit_bytes) {
    status = absl::OutOfRangeError(absl::StrCat(
        "an entry of ", bytes->size(), " bytes is larger than the whole folder may be, ", options_.limit_bytes));
  }
  if (status.ok()) {
    const uint64_t number = next_draft_.fetch_add(1, std::memory_order_relaxed);
    status = Write(absl::StrCat(drafts_, number), FileName(entry.header.key()), *bytes);
  }
  if (!status.ok()) {
    store_failures_.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  stores_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t slack = options_.limit_bytes / 16;
  bool full, look;
  {
    absl::MutexLock lock(&mutex_);
    added_bytes_ += bytes->size();
    full = seen_bytes_ + added_bytes_ > options_.limit_bytes;
    look = full || added_bytes_ > slack;
  }
  if (full && touch_used_) touch_used_();
  // A full folder is emptied a little further, so that not each entry from now on looks
  // at all others. The entry is there: that nothing could be evicted is no failure of
  // its own.
  if (look) Evict(full ? options_.limit_bytes - slack : options_.limit_bytes).IgnoreError();
  return absl::OkStatus();
}

DiskStore::Lock DiskStore::LockKey(absl::string_view key, const std::function<bool()>& enough) {
  // The system has no such lock with a time-out, so it is asked again, ever less often.
  const absl::Time end = absl::Now() + options_.timeout;
  absl::Duration pause = absl::Milliseconds(1);
  for (;;) {
    const int file = folder_->TryLock(LockNumber(key));
    if (file >= 0) return Lock(folder_.get(), file);
    if ((errno != EAGAIN && errno != EACCES) || absl::Now() >= end || (enough && enough())) return Lock();
    absl::SleepFor(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

void DiskStore::RemoveAbandoned(const std::vector<FileInfo>& files) {
  for (const FileInfo& file : files) {
    if (IsDraft(file.name)) folder_->RemoveAbandoned(file.name);
  }
}

absl::StatusOr<DiskStore::Eviction> DiskStore::Evict(uint64_t limit_bytes) {
  const int file = folder_->TryLock(kEvictLock);
  if (file < 0 && errno == EAGAIN) return Eviction{.busy = true};
  const Lock lock(folder_.get(), file);  // where there are no locks, two may evict at once
  KILN_ASSIGN_OR_RETURN(std::vector<FileInfo> files, folder_->List());
  RemoveAbandoned(files);
  const Eviction eviction = RemoveFrom(EntriesOf(std::move(files)), limit_bytes);
  absl::MutexLock guard(&mutex_);
  seen_bytes_ = eviction.left_bytes;
  added_bytes_ = 0;
  return eviction;
}

absl::StatusOr<DiskStore::Eviction> DiskStore::EvictOf(absl::string_view owner, uint64_t limit_bytes) {
  if (touch_used_) touch_used_();
  const int file = folder_->TryLock(kEvictLock);
  if (file < 0 && errno == EAGAIN) return Eviction{.busy = true};
  const Lock lock(folder_.get(), file);
  KILN_ASSIGN_OR_RETURN(std::vector<FileInfo> files, folder_->List());
  const Eviction eviction = RemoveFrom(OwnedBy(owner, EntriesOf(std::move(files))), limit_bytes);
  absl::MutexLock guard(&mutex_);
  seen_bytes_ -= std::min(seen_bytes_, eviction.bytes);
  return eviction;
}

std::vector<FileInfo> DiskStore::EntriesOf(std::vector<FileInfo> files) {
  files.erase(std::remove_if(files.begin(), files.end(), [](const FileInfo& f) { return !IsEntry(f.name); }),
              files.end());
  std::sort(files.begin(), files.end(), [](const FileInfo& a, const FileInfo& b) {
    return a.used_ns != b.used_ns ? a.used_ns < b.used_ns : a.name < b.name;
  });
  return files;
}

DiskStore::Eviction DiskStore::RemoveFrom(const std::vector<FileInfo>& entries, uint64_t limit_bytes) {
  Eviction eviction;
  for (const FileInfo& entry : entries) eviction.left_bytes += entry.bytes;
  for (const FileInfo& entry : entries) {
    if (eviction.left_bytes <= limit_bytes) break;
    if (folder_->Remove(entry.name) != 0 && errno != ENOENT) continue;
    eviction.left_bytes -= entry.bytes;
    eviction.bytes += entry.bytes;
    ++eviction.entries;
  }
  evictions_.fetch_add(eviction.entries, std::memory_order_relaxed);
  return eviction;
}

std::vector<FileInfo> DiskStore::OwnedBy(absl::string_view owner, std::vector<FileInfo> entries) {
  absl::MutexLock lock(&owners_mutex_);
  absl::flat_hash_map<std::string, std::string> known;  // without those that are gone
  std::vector<FileInfo> owned;
  for (FileInfo& entry : entries) {
    std::string of;
    if (const auto found = owners_.find(entry.name); found != owners_.end()) {
      of = std::move(found->second);
    } else if (absl::StatusOr<Folder::Contents> head = folder_->Read(entry.name, kHeadBytes); head.ok()) {
      if (auto header = DecodeHead(head->bytes, head->size); header.ok()) of = header->owner();
    }
    const bool its = of == owner;
    known.emplace(entry.name, std::move(of));
    if (its) owned.push_back(std::move(entry));
  }
  owners_ = std::move(known);
  return owned;
}

absl::StatusOr<std::vector<ListedEntry>> DiskStore::List() {
  KILN_ASSIGN_OR_RETURN(std::vector<FileInfo> files, folder_->List());
  std::sort(files.begin(), files.end(), [](const FileInfo& a, const FileInfo& b) {
    return a.used_ns != b.used_ns ? a.used_ns > b.used_ns : a.name < b.name;
  });
  std::vector<ListedEntry> entries;
  for (FileInfo& file : files) {
    if (!IsEntry(file.name)) continue;
    absl::StatusOr<Folder::Contents> head = folder_->Read(file.name, kHeadBytes);
    if (!head.ok() && head.status().code() == absl::StatusCode::kNotFound) continue;  // evicted meanwhile
    absl::StatusOr<v1::StoredHeader> header = head.ok() ? DecodeHead(head->bytes, head->size) : head.status();
    entries.push_back({std::move(file), std::move(header)});
  }
  return entries;
}

DiskStats DiskStore::stats() const {
  DiskStats stats;
  stats.hits = hits_;
  stats.misses = misses_;
  stats.rejects = rejects_;
  stats.stores = stores_;
  stats.store_failures = store_failures_;
  stats.evictions = evictions_;
  return stats;
}

}  // namespace kiln::store
