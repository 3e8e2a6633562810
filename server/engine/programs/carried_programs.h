// Programs on their way from one server to another: DebugService.Export and Import.
//
// What travels is entries as they are on disk (base/store/entry.h), in a bundle (base/store/bundle.h). An entry is
// machine code and runs as the server does, so it is taken for one reason alone: it is sealed with the very key that
// this server has. The seal says that a server which has the key compiled it from the graph that is in it. Nothing else
// counts, whatever right the caller has: not a checksum, nor who sent it.
//
// On its way an entry is under the key of callers that are not known, and names its tenant, both under the seal. Who
// takes it finds out by the name whose it is there: so no tenant is given another's code, and the two servers need not
// have one secret. An entry as it lies in a tenant's part of a folder has another key, and is refused.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_CARRIED_PROGRAMS_H_
#define KILN_SERVER_ENGINE_PROGRAMS_CARRIED_PROGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "base/digest.h"
#include "kiln/v1/target.pb.h"
#include "runtime/hal/module.h"
#include "server/engine/memory/trust_domain.h"
#include "server/engine/programs/program_disk.h"

namespace kiln::server {

// Of one entry: whoever sends or takes it has it in memory, and a copy or two.
inline constexpr uint64_t kMaxCarriedBytes = uint64_t{128} << 20;

// Exports and Imports under way, which take that memory and threads that compile. Safe from any thread.
class CarryPlaces {
 public:
  static constexpr size_t kMax = 8, kMaxOfOne = 2;

  // Given back when it ends, before these do.
  class Place {
   public:
    Place(CarryPlaces* places, std::string whose) : places_(places), whose_(std::move(whose)) {}
    ~Place() { places_->GiveBack(whose_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    CarryPlaces* const places_;
    const std::string whose_;
  };
  // Of a caller. OUT_OF_MEMORY, limit "programs carried", with when to come again.
  absl::StatusOr<std::unique_ptr<Place>> Take(const std::string& whose);

  // For how long whoever has one may neither take nor send anything. Tests want less, and say so before the first call.
  absl::Duration longest_silence() const { return longest_silence_; }
  void set_longest_silence(absl::Duration silence) { longest_silence_ = silence; }

 private:
  void GiveBack(const std::string& whose);

  absl::Duration longest_silence_ = absl::Minutes(1);
  absl::Mutex mutex_;
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, size_t> of_ ABSL_GUARDED_BY(mutex_);
};

// One Export. One thread at a time, which blocks for the disk.
class ProgramExport {
 public:
  struct Whose {
    std::string tenant;  // empty: of a server without tenants
    TrustDomain domain;
  };
  // One that is in memory, and so its tenant's whatever domain its entry is kept under (shared_code.cc).
  struct InMemory {
    TrustDomain domain;
    std::string stored_key;
    uint64_t compile_us;  // as its tenant was told
  };

  // Programs of these, as far as this server would run them: of its own compiler and limits. `disk` outlives this.
  ProgramExport(ProgramDisk& disk, std::string limits, std::vector<Whose> whose, std::vector<InMemory> in_memory,
                std::unique_ptr<CarryPlaces::Place> place);

  // What comes next of the bundle: some entries, or one that is large. Empty at the end. Before an entry is read, `pay`
  // is told how much memory there will be in all. The errors of `pay`, and of `control`, which is asked between two
  // entries; INTERNAL_FAULT if the folder cannot be read.
  absl::StatusOr<std::string> Next(const runtime::hal::LaunchControl& control,
                                   absl::FunctionRef<absl::Status(uint64_t bytes)> pay);

  // Those that went, and those that were to and could not.
  uint32_t programs() const { return programs_; }
  uint32_t left_out() const { return left_out_; }

 private:
  struct Found {
    std::string key;
    size_t whose;
    uint64_t bytes;  // on the disk
    std::optional<uint64_t> compile_us;
  };
  absl::Status List(const runtime::hal::LaunchControl& control);
  // The bytes of one, to be sent; none if it is left out.
  std::optional<std::string> Read(const Found& found);

  ProgramDisk& disk_;
  const std::string limits_;
  const std::vector<Whose> whose_;
  const std::vector<InMemory> in_memory_;
  const std::unique_ptr<CarryPlaces::Place> place_;
  bool listed_ = false, ended_ = false;
  std::vector<Found> found_;
  size_t next_ = 0;
  uint32_t programs_ = 0, left_out_ = 0;
};

// One Import. One thread at a time, which blocks for the disk.
class ProgramImport {
 public:
  struct Owner {
    TrustDomain domain;
    Account* account = nullptr;
  };
  // Whose a program is here that was this tenant's there; none: nobody's.
  using FindOwner = std::function<std::optional<Owner>(const std::string& tenant)>;

  // For devices of these targets. `disk`, which has a key, and what is found outlive this.
  ProgramImport(ProgramDisk& disk, std::string limits, std::vector<v1::Target> targets, FindOwner find,
                std::unique_ptr<CarryPlaces::Place> place);

  // The bytes of an entry. OK also for one that is not for this server, which is counted. What is there already stays
  // as it is. CORRUPT_ENTRY as DecodeEntry and CheckContents, or field "key"; ProgramDisk::Adopt's errors; and
  // QUOTA_EXCEEDED or OUT_OF_MEMORY if the entries of this call are more together than may be kept: one never makes
  // room for the next.
  absl::Status Take(std::string bytes);

  uint32_t programs() const { return programs_; }
  uint32_t unfit() const { return unfit_; }
  // Graph hash and field, of the first kMaxTold.
  static constexpr size_t kMaxTold = 16;
  const std::vector<std::pair<std::string, std::string>>& first_unfit() const { return first_unfit_; }

 private:
  // The target here whose code it is; null, with the field in which none is.
  const v1::Target* TargetFor(const v1::StoredHeader& header, const char*& field) const;
  // That it, and those before it, fit into what there may be of its owner's and of all.
  absl::Status CheckTogether(const Owner& owner, uint64_t bytes);
  absl::Status Unfit(const v1::StoredHeader& header, const char* field);

  ProgramDisk& disk_;
  const std::string limits_;
  const std::vector<v1::Target> targets_;
  const std::vector<Digest> fingerprints_;  // of these
  const FindOwner find_;
  const std::unique_ptr<CarryPlaces::Place> place_;
  uint64_t taken_bytes_ = 0;
  std::map<TrustDomain, uint64_t> taken_of_;
  uint32_t programs_ = 0, unfit_ = 0;
  std::vector<std::pair<std::string, std::string>> first_unfit_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_CARRIED_PROGRAMS_H_
