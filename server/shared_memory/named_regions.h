// The regions that clients have registered by name, as the open inference protocol has it: a name of the region, the
// key of the shared memory that it is of, and where in it.
//
// They are of who registered them, and unknown to everybody else: of a tenant, and of the user of this machine whose
// memory it is. Names of two owners may be equal. A region lives until its owner unregisters it or its tenant is gone
// from the file of tenants; the protocol knows no other end.
#ifndef KILN_SERVER_SHARED_MEMORY_NAMED_REGIONS_H_
#define KILN_SERVER_SHARED_MEMORY_NAMED_REGIONS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/account.h"
#include "base/byte_budget.h"
#include "server/shared_memory/named_region.h"

namespace kiln::server {

struct RegionOwner {
  std::string tenant;  // empty: of a server that does not want to know
  uint32_t user = 0;   // of this machine
  friend auto operator<=>(const RegionOwner&, const RegionOwner&) = default;
};

using NamedRegionPtr = std::shared_ptr<const NamedRegion>;

// Safe from any thread.
class NamedRegions {
 public:
  // Each keeps a descriptor.
  static constexpr size_t kMaxRegions = 1024, kMaxRegionsOfOwner = 128;
  static constexpr size_t kMaxNameBytes = 255;

  struct Options {
    uint64_t max_bytes = 0;  // of all regions together; and of all copies of them that are under way
    // Callers of loopback, of which no user is known, have what the server's own user owns.
    bool loopback = false;
    std::string folder = "/dev/shm";
  };
  // UNAVAILABLE if there is no such folder.
  static absl::StatusOr<std::unique_ptr<NamedRegions>> Open(Options options);
  ~NamedRegions();
  NamedRegions(const NamedRegions&) = delete;
  NamedRegions& operator=(const NamedRegions&) = delete;

  // At the expense of `account`, which may be null. HANDLE_TAKEN for a name that the owner has registered already;
  // BAD_ARGUMENT for one that is none; OUT_OF_MEMORY with the limit "shared memory regions" or "shared memory bytes";
  // QUOTA_EXCEEDED; NamedRegion::Open's. Where there is no room, the owner's regions whose memory has no name any more
  // make some.
  absl::Status Register(const RegionOwner& owner, const std::string& name, absl::string_view key, uint64_t offset,
                        uint64_t bytes, Account* account);

  // UNKNOWN_HANDLE, whose field is the name.
  absl::StatusOr<NamedRegionPtr> Find(const RegionOwner& owner, const std::string& name) const;
  // All of the owner's, by name.
  std::vector<std::pair<std::string, NamedRegionPtr>> Of(const RegionOwner& owner) const;

  // Forgets it, if it is there; of an empty name all of the owner's. Copies that are under way end as they would.
  void Unregister(const RegionOwner& owner, const std::string& name);
  // Forgets what is of tenants that are none of these.
  void KeepOnly(const std::set<std::string, std::less<>>& tenants);

  bool loopback() const { return options_.loopback; }
  // What copies of tensors take in the server's own memory.
  ByteBudget& copies() { return copies_; }
  uint64_t bytes() const;

 private:
  struct Row {
    NamedRegionPtr region;
    Charge one_region, its_bytes;
  };
  using Rows = std::map<std::string, Row>;

  NamedRegions(Options options, int folder)
      : options_(std::move(options)), folder_(folder), copies_(options_.max_bytes) {}

  absl::StatusOr<Row> RoomFor(const RegionOwner& owner, uint64_t bytes, Account* account) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there were any.
  bool DropRemoved(const RegionOwner& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Rows::iterator Drop(Rows& rows, Rows::iterator row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const int folder_;
  ByteBudget copies_;
  mutable absl::Mutex mutex_;
  std::map<RegionOwner, Rows> owners_ ABSL_GUARDED_BY(mutex_);  // none without a region
  size_t regions_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SHARED_MEMORY_NAMED_REGIONS_H_
