#include "server/engine/programs/program_disk.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "server/engine/programs/program_key.h"

namespace kiln::server {
namespace {

bool IsCorrupt(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() && detail->code() == v1::CORRUPT_ENTRY;
}

}  // namespace

v1::StoredHeader ProgramDisk::HeaderOf(const TrustDomain& domain, const Digest& graph_hash, const Digest& fingerprint,
                                       const v1::Target& target, const compiler::Options& options) const {
  return HeaderOf(domain, graph_hash, fingerprint, target, options.Fingerprint(), LimitsText(options.limits));
}

v1::StoredHeader ProgramDisk::HeaderOf(const TrustDomain& domain, const Digest& graph_hash, const Digest& fingerprint,
                                       const v1::Target& target, const std::string& options,
                                       const std::string& limits) const {
  v1::StoredHeader header;
  header.set_graph_hash(std::string(graph_hash.view()));
  header.set_compiler(compiler_);
  header.set_target_fingerprint(std::string(fingerprint.view()));
  header.set_options(options);
  header.set_limits(limits);
  *header.mutable_target() = target;
  const Digest key =
      StoredKey(domain, graph_hash, fingerprint, target.tuning(), header.options(), header.limits(), header.compiler());
  header.set_key(std::string(key.view()));
  if (domain != TrustDomain()) header.set_owner(std::string(domain.view()));
  return header;
}

std::optional<ProgramDisk::Loaded> ProgramDisk::Load(const v1::StoredHeader& wanted, bool again) {
  absl::StatusOr<store::Entry> entry = store_->Load(wanted, again);
  if (!entry.ok()) {
    if (IsCorrupt(entry.status())) {
      Log(DiskEvent::Kind::kRejected, wanted, entry.status().message());
    } else if (entry.status().code() != absl::StatusCode::kNotFound) {
      Log(DiskEvent::Kind::kReadFailed, wanted, entry.status().message());
    }
    return std::nullopt;
  }
  Loaded loaded;
  if (entry->header.several_devices()) loaded.program = v1::MultiProgram();
  if (!std::visit([&](auto& program) { return program.ParseFromString(entry->executable); }, loaded.program)) {
    OnUnusable(wanted, absl::DataLossError("the executable cannot be read"));
    return std::nullopt;
  }
  loaded.graph = std::move(entry->graph);
  loaded.kernels = entry->header.kernels();
  const auto* one = std::get_if<v1::Executable>(&loaded.program);
  loaded.bytes = one == nullptr ? entry->executable.size() : one->object().size() + one->constants().size();
  loaded.compile_us = entry->header.compile_us();
  return loaded;
}

void ProgramDisk::OnLoaded(const v1::StoredHeader& header, const Loaded& loaded, int64_t micros) {
  DiskEvent event{DiskEvent::Kind::kLoaded, absl::BytesToHexString(header.graph_hash())};
  event.kernels = loaded.kernels;
  event.bytes = loaded.bytes;
  event.micros = micros;
  log_(event);
}

void ProgramDisk::OnUnusable(const v1::StoredHeader& header, const absl::Status& why) {
  store_->Reject(header.key());
  Log(DiskEvent::Kind::kRejected, header, why.message());
}

void ProgramDisk::Publish(v1::StoredHeader header, const CompiledProgram& program, std::string graph, Account* account,
                          bool replaces) {
  header.set_kernels(KernelsOf(program));
  header.set_several_devices(std::holds_alternative<v1::MultiProgram>(program));
  std::visit(
      [&](const auto& made) {
        *header.mutable_target() = made.target();
        store::Entry entry{std::move(header), made.SerializeAsString(), std::move(graph)};
        const absl::Status status = Put(entry, account, replaces);
        if (!status.ok()) Log(DiskEvent::Kind::kStoreFailed, entry.header, status.message());
      },
      program);
}

absl::Status ProgramDisk::Put(store::Entry& entry, Account* account, bool replaces) {
  if (account == nullptr || entry.header.owner().empty()) return store_->Publish(entry);
  const std::shared_ptr<Owned> owned = OwnedBy(entry.header.owner());
  const uint64_t bytes = store::EncodedBytes(entry);
  absl::MutexLock lock(&owned->mutex);
  if (owned->forgotten) return absl::CancelledError("its tenant is no more");
  KILN_RETURN_IF_ERROR(MakeRoom(entry.header.owner(), *owned, *account, bytes));
  absl::Status status = store_->Publish(entry);
  if (!status.ok()) owned->charge.Shrink(bytes);
  if (replaces) owned->removals = ~uint64_t{0};
  return status;
}

absl::Status ProgramDisk::Adopt(store::Entry entry, Account* account) {
  absl::Status status = Put(entry, account, /*replaces=*/false);
  if (status.ok() || DetailOf(status).has_value()) return status;
  if (!absl::IsResourceExhausted(status) && !absl::IsOutOfRange(status))
    return MakeError(v1::INTERNAL_FAULT, status.message());
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_limit("disk bytes");
  detail.set_used(store::EncodedBytes(entry));
  return MakeError(detail, status.message());
}

uint32_t ProgramDisk::Evict(const TrustDomain& domain, const Digest& graph_hash) {
  const auto entries = store_->List();
  if (!entries.ok()) return 0;
  uint32_t removed = 0;
  for (const store::ListedEntry& entry : *entries) {
    if (!entry.header.ok() || entry.header->graph_hash() != graph_hash.view()) continue;
    if (IsOf(domain, *entry.header) && store_->Remove(entry.header->key())) ++removed;
  }
  return removed;
}

// A key says whose an entry is, also where its head does not.
bool ProgramDisk::IsOf(const TrustDomain& domain, const v1::StoredHeader& header) {
  constexpr size_t kBytes = sizeof(Digest::bytes);
  if (header.graph_hash().size() != kBytes || header.target_fingerprint().size() != kBytes) return false;
  const Digest key =
      StoredKey(domain, Digest::FromBytes(header.graph_hash()), Digest::FromBytes(header.target_fingerprint()),
                header.target().tuning(), header.options(), header.limits(), header.compiler());
  return header.key() == key.view();
}

void ProgramDisk::Forget(const TrustDomain& domain) {
  const std::shared_ptr<Owned> owned = OwnedBy(std::string(domain.view()));
  absl::MutexLock lock(&owned->mutex);
  owned->forgotten = true;
  owned->charge.Release();
  const auto entries = store_->List();
  if (!entries.ok()) return;
  for (const store::ListedEntry& entry : *entries) {
    if (entry.header.ok() && IsOf(domain, *entry.header)) store_->Remove(entry.header->key());
  }
}

std::shared_ptr<ProgramDisk::Owned> ProgramDisk::OwnedBy(const std::string& owner) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<Owned>& owned = owned_[owner];
  if (owned == nullptr) owned = std::make_shared<Owned>();
  return owned;
}

uint64_t ProgramDisk::Removals() const {
  const store::DiskStats stats = store_->stats();
  return stats.evictions + stats.rejects;
}

absl::Status ProgramDisk::MakeRoom(const std::string& owner, Owned& owned, Account& account, uint64_t bytes) {
  const uint64_t limit = account.limit(Quota::kDiskBytes), most = limit == 0 ? ~uint64_t{0} : limit;
  // What would not fit into an empty quota removes nothing.
  if (bytes > most) return account.Take(Quota::kDiskBytes, bytes);
  if (owned.removals == Removals() && owned.charge.Grow(bytes).ok()) return absl::OkStatus();
  // Other servers may have added some, or removed some. A full quota is emptied a little further, so that not each
  // entry from now on looks at all others.
  const auto left = store_->EvictOf(owner, most - bytes);
  if (!left.ok()) return left.status();
  if (left->busy) return owned.charge.Grow(bytes);
  uint64_t left_bytes = left->left_bytes;
  if (left->entries > 0) {
    const uint64_t slack = std::min(most - bytes, most / 16);
    if (const auto further = store_->EvictOf(owner, most - bytes - slack); further.ok() && !further->busy)
      left_bytes = further->left_bytes;
  }
  owned.removals = Removals();
  owned.charge = ChargeOf(&account, Quota::kDiskBytes);
  return owned.charge.Grow(left_bytes + bytes);
}

void ProgramDisk::Log(DiskEvent::Kind kind, const v1::StoredHeader& header, absl::string_view reason) {
  DiskEvent event{kind, absl::BytesToHexString(header.graph_hash())};
  event.reason = std::string(reason);
  log_(event);
}

}  // namespace kiln::server
