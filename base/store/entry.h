// A compiled program as a file: what is written, and when it is believed.
//
//   offset   bytes
//   0        8        "KILNPROG"
//   8        4        version of this layout: 1, or 2 if it is sealed
//   12       4        H, bytes of the header
//   16       8        P, bytes of the payload
//   24       H        kiln.v1.StoredHeader
//   24+H     P        kiln.v1.Executable (or MultiProgram), then the kiln.v1.Graph it was made from
//   24+H+P   32       BLAKE3-256 of all that stands before: the checksum; or keyed, the seal
//
// Numbers are little-endian. A file of any other length is no entry. The checksum finds
// what a disk or an interrupted copy did to a file. It does not say who wrote it: that
// is what the folder's permissions are for, or the seal (seal.h). Who has a key takes sealed
// entries alone, and who has none, others.
#ifndef KILN_BASE_STORE_ENTRY_H_
#define KILN_BASE_STORE_ENTRY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/store/seal.h"
#include "kiln/v1/stored_program.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::store {

inline constexpr uint64_t kMaxHeaderBytes = 64 << 10;
// An Executable, or a MultiProgram, is one message, and so has less than 2 GiB.
inline constexpr uint64_t kMaxEntryBytes = uint64_t{3} << 30;
// So many first bytes of a file hold its whole header.
inline constexpr uint64_t kHeadBytes = 24 + kMaxHeaderBytes;

struct Entry {
  v1::StoredHeader header;
  // Serialized, as the header's byte counts cut the payload.
  std::string executable;
  std::string graph;
};

// The file's bytes, sealed if there is a key. Sets the header's byte counts. OUT_OF_RANGE if it
// would be larger than an entry may be.
absl::StatusOr<std::string> EncodeEntry(Entry& entry, const SealKey& key = std::nullopt);
// How many bytes that gives.
uint64_t EncodedBytes(Entry& entry);

// The whole entry, with every length and the checksum, or the seal, confirmed. CORRUPT_ENTRY.
absl::StatusOr<Entry> DecodeEntry(std::string bytes, const SealKey& key = std::nullopt);

// Whether the file says that it is sealed; nothing is confirmed.
bool SaysItIsSealed(absl::string_view bytes);

// The header alone, from a file's first bytes and its size; the checksum is not looked
// at. CORRUPT_ENTRY. Good enough to list, not to run.
absl::StatusOr<v1::StoredHeader> DecodeHead(absl::string_view head, uint64_t size);

// Whether an entry with header `found` is what one that looks for `wanted` may run:
// each of the fields 1 to 6 is equal, and the machine that `wanted.target` describes
// has all that the entry's target needs. CORRUPT_ENTRY with the field named.
absl::Status CheckWanted(const v1::StoredHeader& found, const v1::StoredHeader& wanted);

// That the graph in the entry has the hash that the header says, and that the
// executable is one, for the header's target. What a stranger's entry must pass before
// it is kept; one of our own folder need not. CORRUPT_ENTRY.
absl::Status CheckContents(const Entry& entry);

// Whether `machine` has every feature that code for `target` needs; the first that is
// missing otherwise, "" if none is.
std::string MissingFeature(const v1::Target& target, const v1::Target& machine);

}  // namespace kiln::store

#endif  // KILN_BASE_STORE_ENTRY_H_
