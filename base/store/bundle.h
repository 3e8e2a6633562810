// Many stored programs in one file, to carry them from one folder to another; and the
// list that says which programs a server should load before it serves.
//
// A bundle is "KILNBNDL", the layout's version in 4 bytes (1), each entry as entry.h has
// it behind its length in 8, and a length of 0 at the end. It is no more to be trusted
// than the one it is from: an entry is machine code, and a checksum does not say whose. A
// seal does (seal.h): with a key, only entries with its seal are written and taken.
// Reading it takes each entry by itself, checked, and never more memory than the file
// has bytes.
//
// A list is text: a line for each program, its graph's hash and the options that it was
// compiled with, as the compiler spells them. Empty lines, and what follows a #, do not
// count.
#ifndef KILN_BASE_STORE_BUNDLE_H_
#define KILN_BASE_STORE_BUNDLE_H_

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/graph/graph_hash.h"
#include "base/store/disk_store.h"
#include "base/store/entry.h"

namespace kiln::store {

// One thread at a time.
class BundleWriter {
 public:
  // The file appears under its name when Finish has succeeded.
  explicit BundleWriter(std::string path, const SealKey& key = std::nullopt);
  ~BundleWriter();

  absl::Status Add(Entry& entry);
  absl::Status Finish();

 private:
  absl::Status Failure() const;

  const std::string path_, draft_;
  const SealKey key_;
  std::ofstream file_;
};

// One thread at a time.
class BundleReader {
 public:
  enum class Trust {
    kSealed,    // with a key, sealed entries alone
    kUnsealed,  // those without any seal, too: whoever made the file is trusted
  };
  static absl::StatusOr<BundleReader> Open(const std::string& path, const SealKey& key = std::nullopt,
                                           Trust trust = Trust::kSealed);

  // The next entry, none at the end. CORRUPT_ENTRY with field "entry" is about this entry
  // alone, and the next may be fine; any other failure ends the bundle.
  absl::StatusOr<std::optional<Entry>> Next();

 private:
  BundleReader(std::ifstream file, uint64_t bytes, const SealKey& key, Trust trust)
      : file_(std::move(file)), left_(bytes), key_(key), trust_(trust) {}
  absl::StatusOr<uint64_t> ReadNumber(int bytes);

  std::ifstream file_;
  uint64_t left_;
  SealKey key_;
  Trust trust_;
};

struct ImportCounts {
  size_t taken = 0;
  size_t there = 0;  // under a key that has a good entry already, which stays
  size_t refused = 0;
};

// Publishes every good entry of the bundle. `each` is called for every entry, taken or there
// already, and of every refusal, whose entry is empty. Fails if the bundle itself is
// broken, or the folder cannot be written; what was taken until then stays.
absl::StatusOr<ImportCounts> Import(BundleReader& bundle, DiskStore& store,
                                    const std::function<void(const Entry&, const absl::Status&)>& each);

// Whether the file begins as a bundle does.
bool IsBundle(const std::string& path);

struct WarmProgram {
  GraphHash graph_hash;
  std::string options;

  friend bool operator==(const WarmProgram&, const WarmProgram&) = default;
};

std::string PrintWarmList(const std::vector<WarmProgram>& programs);
// BAD_ARGUMENT with the line's number.
absl::StatusOr<std::vector<WarmProgram>> ParseWarmList(absl::string_view text);

}  // namespace kiln::store

#endif  // KILN_BASE_STORE_BUNDLE_H_
