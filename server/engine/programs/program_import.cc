// Tested by tests/e2e/carry.
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/multi_program.pb.h"
#include "server/engine/programs/carried_programs.h"
#include "server/engine/programs/program_key.h"

namespace kiln::server {
namespace {

std::vector<Digest> FingerprintsOf(const std::vector<v1::Target>& targets) {
  std::vector<Digest> fingerprints;
  for (const v1::Target& target : targets) fingerprints.push_back(TargetFingerprint(target));
  return fingerprints;
}

// Without what is measured, which differs from run to run on one and the same CPU.
std::string WithoutMeasures(v1::Target::Tuning tuning) {
  tuning.clear_core();
  return tuning.SerializeAsString();
}

// Lets the program say what this server has measured, as the key under which it looks for programs does.
template <typename Message>
std::string Retuned(const std::string& program, const v1::Target::Tuning& tuning, v1::StoredHeader& header) {
  Message message;
  message.ParseFromString(program);  // CheckContents has read it
  *message.mutable_target()->mutable_tuning() = tuning;
  *header.mutable_target() = message.target();
  return message.SerializeAsString();
}

}  // namespace

ProgramImport::ProgramImport(ProgramDisk& disk, std::string limits, std::vector<v1::Target> targets, FindOwner find,
                             std::unique_ptr<CarryPlaces::Place> place)
    : disk_(disk),
      limits_(std::move(limits)),
      targets_(std::move(targets)),
      fingerprints_(FingerprintsOf(targets_)),
      find_(std::move(find)),
      place_(std::move(place)) {}

const v1::Target* ProgramImport::TargetFor(const v1::StoredHeader& header, const char*& field) const {
  field = "target";
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (header.target_fingerprint() != fingerprints_[i].view()) continue;
    if (WithoutMeasures(header.target().tuning()) == WithoutMeasures(targets_[i].tuning())) return &targets_[i];
    field = "target.tuning";
  }
  return nullptr;
}

absl::Status ProgramImport::Unfit(const v1::StoredHeader& header, const char* field) {
  ++unfit_;
  if (first_unfit_.size() < kMaxTold) first_unfit_.emplace_back(header.graph_hash(), field);
  return absl::OkStatus();
}

absl::Status ProgramImport::CheckTogether(const Owner& owner, uint64_t bytes) {
  uint64_t& of_owner = taken_of_[owner.domain];
  const uint64_t limit = owner.account == nullptr ? 0 : owner.account->limit(Quota::kDiskBytes);
  if (limit != 0 && of_owner + bytes > limit)
    KILN_RETURN_IF_ERROR(owner.account->CheckRoom(Quota::kDiskBytes, of_owner + bytes));
  if (taken_bytes_ + bytes > disk_.store().limit_bytes()) {
    v1::ErrorDetail detail;
    detail.set_code(v1::OUT_OF_MEMORY);
    detail.set_limit("disk bytes");
    detail.set_limit_value(disk_.store().limit_bytes());
    detail.set_used(taken_bytes_ + bytes);
    return MakeError(detail, absl::StrCat("the programs have ", taken_bytes_ + bytes,
                                          " bytes so far; the server's folder may have ", disk_.store().limit_bytes()));
  }
  of_owner += bytes;
  taken_bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status ProgramImport::Take(std::string bytes) {
  const uint64_t size = bytes.size();
  KILN_ASSIGN_OR_RETURN(store::Entry entry, store::DecodeEntry(std::move(bytes), disk_.store().key()));
  KILN_RETURN_IF_ERROR(store::CheckContents(entry));
  v1::StoredHeader& header = entry.header;
  const Digest graph_hash = Digest::FromBytes(header.graph_hash());
  const bool has_target = header.target_fingerprint().size() == sizeof(Digest);
  if (!has_target ||
      header.key() != StoredKey(TrustDomain(), graph_hash, Digest::FromBytes(header.target_fingerprint()),
                                header.target().tuning(), header.options(), header.limits(), header.compiler())
                          .view()) {
    v1::ErrorDetail detail;
    detail.set_code(v1::CORRUPT_ENTRY);
    detail.set_field("key");
    return MakeError(detail, "stored program, key: it is that of a tenant's part of a folder; take what Export gives");
  }
  if (header.compiler() != disk_.compiler()) return Unfit(header, "compiler");
  if (header.limits() != limits_) return Unfit(header, "limits");
  const char* field = nullptr;
  const v1::Target* const target = TargetFor(header, field);
  if (target == nullptr) return Unfit(header, field);
  const std::optional<Owner> owner = find_(header.tenant());
  if (!owner.has_value()) return Unfit(header, "tenant");

  KILN_RETURN_IF_ERROR(CheckTogether(*owner, size));
  v1::StoredHeader here = disk_.HeaderOf(owner->domain, graph_hash, Digest::FromBytes(header.target_fingerprint()),
                                         *target, header.options(), header.limits());
  ++programs_;
  // Its owner's, and so nothing that the answer would tell of others.
  if (disk_.store().Read(store::DiskStore::FileName(here.key())).ok()) return absl::OkStatus();
  here.set_several_devices(header.several_devices());
  here.set_kernels(header.kernels());
  here.set_compile_us(header.compile_us());
  entry.executable = header.several_devices() ? Retuned<v1::MultiProgram>(entry.executable, target->tuning(), here)
                                              : Retuned<v1::Executable>(entry.executable, target->tuning(), here);
  entry.header = std::move(here);
  const absl::Status kept = disk_.Adopt(std::move(entry), owner->account);
  if (!kept.ok()) --programs_;
  return kept;
}

}  // namespace kiln::server
