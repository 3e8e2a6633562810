// Tested by tests/e2e/carry.
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/store/bundle_pieces.h"
#include "server/engine/programs/carried_programs.h"
#include "server/engine/programs/program_key.h"

namespace kiln::server {
namespace {

// So much is read before it is sent.
constexpr size_t kPieceBytes = 1 << 20;
constexpr uint32_t kAgainMs = 1000;
// An entry as it lies on the disk, decoded, written anew, and in the piece.
constexpr uint64_t kCopies = 4;

Digest KeyUnder(const TrustDomain& domain, const v1::StoredHeader& header) {
  return StoredKey(domain, Digest::FromBytes(header.graph_hash()), Digest::FromBytes(header.target_fingerprint()),
                   header.target().tuning(), header.options(), header.limits(), header.compiler());
}

}  // namespace

absl::StatusOr<std::unique_ptr<CarryPlaces::Place>> CarryPlaces::Take(const std::string& whose) {
  absl::MutexLock lock(&mutex_);
  size_t& of_one = of_[whose];
  const bool one_has_all = of_one >= kMaxOfOne;
  if (one_has_all || taken_ >= kMax) {
    const size_t most = one_has_all ? kMaxOfOne : kMax;
    if (of_one == 0) of_.erase(whose);
    v1::ErrorDetail detail;
    detail.set_code(v1::OUT_OF_MEMORY);
    detail.set_limit("programs carried");
    detail.set_limit_value(most);
    detail.set_used(most);
    detail.set_retry_after_ms(kAgainMs);
    return MakeError(detail, absl::StrCat(most, " exports and imports of programs are under way",
                                          one_has_all ? " of this caller's" : "", ", as many as may be"));
  }
  ++of_one;
  ++taken_;
  return std::make_unique<Place>(this, whose);
}

void CarryPlaces::GiveBack(const std::string& whose) {
  absl::MutexLock lock(&mutex_);
  --taken_;
  if (--of_[whose] == 0) of_.erase(whose);
}

ProgramExport::ProgramExport(ProgramDisk& disk, std::string limits, std::vector<Whose> whose,
                             std::vector<InMemory> in_memory, std::unique_ptr<CarryPlaces::Place> place)
    : disk_(disk),
      limits_(std::move(limits)),
      whose_(std::move(whose)),
      in_memory_(std::move(in_memory)),
      place_(std::move(place)) {}

absl::Status ProgramExport::List(const runtime::hal::LaunchControl& control) {
  const auto entries = disk_.store().List();
  if (!entries.ok()) return MakeError(v1::INTERNAL_FAULT, entries.status().message());
  absl::flat_hash_map<std::string, const store::ListedEntry*> by_key;
  std::set<std::pair<size_t, Digest>> taken;  // by whose they are and their key on the way: each program once
  const auto add = [&](size_t whose, const store::ListedEntry& entry, std::optional<uint64_t> compile_us) {
    if (!taken.emplace(whose, KeyUnder(TrustDomain(), *entry.header)).second) return;
    if (entry.file.bytes > kMaxCarriedBytes) {
      ++left_out_;
    } else {
      found_.push_back({entry.header->key(), whose, entry.file.bytes, compile_us});
    }
  };
  for (const store::ListedEntry& entry : *entries) {
    KILN_RETURN_IF_ERROR(control.Check());
    if (!entry.header.ok()) continue;
    const v1::StoredHeader& header = *entry.header;
    if (header.compiler() != disk_.compiler() || header.limits() != limits_) continue;
    if (header.target_fingerprint().size() != sizeof(Digest)) continue;
    by_key[header.key()] = &entry;
    for (size_t i = 0; i < whose_.size(); ++i) {
      // A key says whose an entry is; its head may spare us to make the keys of all others.
      const TrustDomain& domain = whose_[i].domain;
      if (!header.owner().empty() && header.owner() != domain.view()) continue;
      if (header.key() == KeyUnder(domain, header).view()) add(i, entry, std::nullopt);
    }
  }
  for (const InMemory& program : in_memory_) {
    if (program.stored_key.empty()) continue;
    const auto entry = by_key.find(program.stored_key);
    for (size_t i = 0; i < whose_.size(); ++i) {
      if (whose_[i].domain != program.domain) continue;
      if (entry == by_key.end()) {
        ++left_out_;
      } else {
        add(i, *entry->second, program.compile_us);
      }
    }
  }
  return absl::OkStatus();
}

std::optional<std::string> ProgramExport::Read(const Found& found) {
  store::DiskStore& store = disk_.store();
  auto entry = store.Read(store::DiskStore::FileName(found.key));
  if (!entry.ok() || !store::CheckContents(*entry).ok()) return std::nullopt;
  v1::StoredHeader& header = entry->header;
  if (header.key() != found.key) return std::nullopt;
  header.set_key(std::string(KeyUnder(TrustDomain(), header).view()));
  header.clear_owner();
  header.set_tenant(whose_[found.whose].tenant);
  // Of code that tenants share unseen, how long another's compilation took is not told.
  if (found.compile_us.has_value()) header.set_compile_us(*found.compile_us);
  auto bytes = store::EncodeEntry(*entry, store.key());
  if (!bytes.ok() || bytes->size() > kMaxCarriedBytes) return std::nullopt;
  return *std::move(bytes);
}

absl::StatusOr<std::string> ProgramExport::Next(const runtime::hal::LaunchControl& control,
                                                absl::FunctionRef<absl::Status(uint64_t bytes)> pay) {
  std::string piece;
  if (ended_) return piece;
  if (!std::exchange(listed_, true)) {
    KILN_RETURN_IF_ERROR(List(control));
    piece = store::BundleBegin();
  }
  while (next_ < found_.size() && piece.size() < kPieceBytes) {
    KILN_RETURN_IF_ERROR(control.Check());
    KILN_RETURN_IF_ERROR(pay(piece.size() + kCopies * found_[next_].bytes));
    const auto bytes = Read(found_[next_++]);
    ++(bytes.has_value() ? programs_ : left_out_);
    if (bytes.has_value()) absl::StrAppend(&piece, store::EntryBegin(bytes->size()), *bytes);
  }
  if (next_ == found_.size()) {
    piece += store::BundleEnd();
    ended_ = true;
  }
  return piece;
}

}  // namespace kiln::server
