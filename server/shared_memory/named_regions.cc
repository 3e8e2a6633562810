#include "server/shared_memory/named_regions.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/memory/over_limit.h"

namespace kiln::server {
namespace {

// A name of a stranger's, on one line and not long.
std::string Shown(absl::string_view name) { return absl::CHexEscape(name.substr(0, NamedRegions::kMaxNameBytes)); }
std::string Quoted(absl::string_view name) { return absl::StrCat("\"", Shown(name), "\""); }

absl::Status OfRegion(v1::ErrorCode code, absl::string_view name, absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(Shown(name));
  return MakeError(std::move(detail), what);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NamedRegions>> NamedRegions::Open(Options options) {
  const int folder = open(options.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return absl::UnavailableError(
        absl::StrCat("shared memory by name: cannot open ", options.folder, ": ", std::strerror(errno)));
  }
  return std::unique_ptr<NamedRegions>(new NamedRegions(std::move(options), folder));
}

NamedRegions::~NamedRegions() { close(folder_); }

absl::Status NamedRegions::Register(const RegionOwner& owner, const std::string& name, absl::string_view key,
                                    uint64_t offset, uint64_t bytes, Account* account) {
  if (name.empty() || name.size() > kMaxNameBytes || !absl::c_all_of(name, absl::ascii_isgraph)) {
    return OfRegion(v1::BAD_ARGUMENT, "name",
                    absl::StrCat("a shared memory region cannot be called ", Quoted(name), ": a name is 1 to ",
                                 kMaxNameBytes, " printable characters of ASCII, without spaces"));
  }
  auto region = NamedRegion::Open(folder_, key, offset, bytes, owner.user);
  if (!region.ok())
    return Annotate(region.status(), absl::StrCat("failed to register shared memory region ", Quoted(name)));
  absl::MutexLock lock(&mutex_);
  if (const auto rows = owners_.find(owner); rows != owners_.end() && rows->second.count(name) != 0) {
    return OfRegion(v1::HANDLE_TAKEN, name,
                    absl::StrCat("shared memory region ", Quoted(name), " is registered already; unregister it first"));
  }
  auto row = RoomFor(owner, bytes, account);
  if (!row.ok() && DropRemoved(owner)) row = RoomFor(owner, bytes, account);
  if (!row.ok()) return row.status();
  row->region = *std::move(region);
  owners_[owner].emplace(name, *std::move(row));
  ++regions_;
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<NamedRegions::Row> NamedRegions::RoomFor(const RegionOwner& owner, uint64_t bytes,
                                                        Account* account) const {
  const auto rows = owners_.find(owner);
  const size_t own = rows == owners_.end() ? 0 : rows->second.size();
  if (own >= kMaxRegionsOfOwner || regions_ >= kMaxRegions) {
    const size_t most = own >= kMaxRegionsOfOwner ? kMaxRegionsOfOwner : kMaxRegions;
    return OverLimit(
        "shared memory regions", most, most + 1,
        absl::StrCat("there are ", most, " shared memory regions, as many as ",
                     most == kMaxRegions ? "this server keeps" : "one caller may have", "; unregister some"));
  }
  if (bytes > options_.max_bytes - bytes_) {
    return OverLimit("shared memory bytes", options_.max_bytes, bytes,
                     absl::StrCat("a shared memory region of ", bytes, " bytes; this server takes ", options_.max_bytes,
                                  ", of which ", bytes_, " are registered"));
  }
  Row row;
  KILN_ASSIGN_OR_RETURN(row.one_region, Hold(account, Quota::kRegions, 1));
  KILN_ASSIGN_OR_RETURN(row.its_bytes, Hold(account, Quota::kRegionBytes, bytes));
  return row;
}

absl::StatusOr<NamedRegionPtr> NamedRegions::Find(const RegionOwner& owner, const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  if (const auto rows = owners_.find(owner); rows != owners_.end()) {
    if (const auto row = rows->second.find(name); row != rows->second.end()) return row->second.region;
  }
  return OfRegion(v1::UNKNOWN_HANDLE, name, absl::StrCat("unable to find shared memory region: ", Quoted(name)));
}

std::vector<std::pair<std::string, NamedRegionPtr>> NamedRegions::Of(const RegionOwner& owner) const {
  std::vector<std::pair<std::string, NamedRegionPtr>> found;
  absl::MutexLock lock(&mutex_);
  const auto rows = owners_.find(owner);
  if (rows == owners_.end()) return found;
  for (const auto& [name, row] : rows->second) found.emplace_back(name, row.region);
  return found;
}

void NamedRegions::Unregister(const RegionOwner& owner, const std::string& name) {
  absl::MutexLock lock(&mutex_);
  const auto rows = owners_.find(owner);
  if (rows == owners_.end()) return;
  for (auto row = rows->second.begin(); row != rows->second.end();)
    row = name.empty() || row->first == name ? Drop(rows->second, row) : std::next(row);
  if (rows->second.empty()) owners_.erase(rows);
}

void NamedRegions::KeepOnly(const std::set<std::string, std::less<>>& tenants) {
  absl::MutexLock lock(&mutex_);
  for (auto rows = owners_.begin(); rows != owners_.end();) {
    const auto next = std::next(rows);
    if (!tenants.contains(rows->first.tenant)) {
      for (auto row = rows->second.begin(); row != rows->second.end();) row = Drop(rows->second, row);
      owners_.erase(rows);
    }
    rows = next;
  }
}

uint64_t NamedRegions::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

bool NamedRegions::DropRemoved(const RegionOwner& owner) {
  const auto rows = owners_.find(owner);
  if (rows == owners_.end()) return false;
  const size_t before = rows->second.size();
  for (auto row = rows->second.begin(); row != rows->second.end();)
    row = row->second.region->is_removed() ? Drop(rows->second, row) : std::next(row);
  const size_t after = rows->second.size();
  if (after == 0) owners_.erase(rows);
  return after < before;
}

NamedRegions::Rows::iterator NamedRegions::Drop(Rows& rows, Rows::iterator row) {
  --regions_;
  bytes_ -= row->second.region->bytes();
  return rows.erase(row);
}

}  // namespace kiln::server
