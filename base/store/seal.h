// The key that stored programs are sealed with, where whoever may write a folder or a bundle
// is not whoever may say what a server runs.
//
// A sealed entry ends in a hash that takes the key as well as the bytes (keyed BLAKE3): only
// who has the key can make one, or change it. Who has the key sees nothing that others do not:
// entries are not encrypted. Tested by base/store/entry_test and base/store/bundle_test.
#ifndef KILN_BASE_STORE_SEAL_H_
#define KILN_BASE_STORE_SEAL_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/digest.h"

namespace kiln::store {

// None: entries have a checksum, and are not sealed.
using SealKey = std::optional<Digest>;

// The key in a file of 32 bytes that belongs to this process's user or to root, that nobody
// else may write and that others than its group may not read. No file is made. BAD_ARGUMENT
// that says what is wrong with it.
absl::StatusOr<SealKey> ReadSealKey(const std::string& path);

}  // namespace kiln::store

#endif  // KILN_BASE_STORE_SEAL_H_
