#include "base/store/entry.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/blake3.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/multi_program.pb.h"

namespace kiln::store {
namespace {

constexpr absl::string_view kMagic = "KILNPROG";
constexpr uint32_t kPlain = 1, kSealed = 2;
constexpr uint64_t kFixedBytes = 24;
constexpr uint64_t kChecksumBytes = 32;

void AppendNumber(uint64_t number, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(number >> (8 * i) & 0xff));
}

uint64_t NumberAt(absl::string_view bytes, size_t offset, int count) {
  uint64_t number = 0;
  for (int i = 0; i < count; ++i) number |= uint64_t{static_cast<uint8_t>(bytes[offset + i])} << (8 * i);
  return number;
}

template <typename... Parts>
absl::Status Corrupt(const char* field, const Parts&... parts) {
  v1::ErrorDetail detail;
  detail.set_code(v1::CORRUPT_ENTRY);
  detail.set_field(field);
  return MakeError(std::move(detail), absl::StrCat("stored program, ", field, ": ", parts...));
}

// The header and where the payload begins, of a file of `size` bytes.
struct Head {
  v1::StoredHeader header;
  uint64_t payload = 0;
};

absl::StatusOr<Head> ReadHead(absl::string_view bytes, uint64_t size) {
  if (bytes.size() < kFixedBytes) return Corrupt("length", bytes.size(), " bytes are no entry");
  if (bytes.substr(0, kMagic.size()) != kMagic) return Corrupt("magic", "this is no stored program");
  const uint64_t version = NumberAt(bytes, 8, 4);
  if (version != kPlain && version != kSealed) {
    return Corrupt("version", "layout ", version, "; this program reads ", kPlain, " and ", kSealed);
  }
  const uint64_t header_bytes = NumberAt(bytes, 12, 4), payload_bytes = NumberAt(bytes, 16, 8);
  if (header_bytes > kMaxHeaderBytes) return Corrupt("header", header_bytes, " bytes are too many");
  if (payload_bytes > kMaxEntryBytes) return Corrupt("payload", payload_bytes, " bytes are too many");
  const uint64_t wanted = kFixedBytes + header_bytes + payload_bytes + kChecksumBytes;
  if (size != wanted) return Corrupt("length", "the file has ", size, " bytes where ", wanted, " were written");
  if (bytes.size() < kFixedBytes + header_bytes) return Corrupt("length", "the file ends within its header");
  Head head;
  head.payload = kFixedBytes + header_bytes;
  if (!head.header.ParseFromArray(bytes.data() + kFixedBytes, static_cast<int>(header_bytes))) {
    return Corrupt("header", "it cannot be read");
  }
  const v1::StoredHeader& header = head.header;
  if (header.executable_bytes() > payload_bytes || header.graph_bytes() != payload_bytes - header.executable_bytes()) {
    return Corrupt("payload", "its parts are not as long as the whole");
  }
  if (header.key().size() != sizeof(Digest)) return Corrupt("key", "it has ", header.key().size(), " bytes, not 32");
  if (header.graph_hash().size() != sizeof(Digest)) {
    return Corrupt("graph_hash", "it has ", header.graph_hash().size(), " bytes, not 32");
  }
  return head;
}

void SetSizes(Entry& entry) {
  entry.header.set_executable_bytes(entry.executable.size());
  entry.header.set_graph_bytes(entry.graph.size());
}

// In a time that does not tell how many of the first are equal.
bool SameBytes(absl::string_view a, absl::string_view b) {
  unsigned char differs = 0;
  for (size_t i = 0; i < a.size(); ++i) differs |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differs == 0;
}

// Text as it is, bytes as digits.
std::string Shown(absl::string_view value, bool digest) {
  return digest ? absl::BytesToHexString(value) : absl::StrCat("\"", absl::CEscape(value), "\"");
}

}  // namespace

uint64_t EncodedBytes(Entry& entry) {
  SetSizes(entry);
  return kFixedBytes + entry.header.ByteSizeLong() + entry.executable.size() + entry.graph.size() + kChecksumBytes;
}

bool SaysItIsSealed(absl::string_view bytes) { return bytes.size() >= kFixedBytes && NumberAt(bytes, 8, 4) == kSealed; }

absl::StatusOr<std::string> EncodeEntry(Entry& entry, const SealKey& key) {
  SetSizes(entry);
  const std::string header = entry.header.SerializeAsString();
  const uint64_t payload = entry.executable.size() + entry.graph.size();
  if (header.size() > kMaxHeaderBytes || payload > kMaxEntryBytes) {
    return absl::OutOfRangeError(
        absl::StrCat("a header of ", header.size(), " and a payload of ", payload, " bytes are too large to store"));
  }
  std::string bytes;
  bytes.reserve(kFixedBytes + header.size() + payload + kChecksumBytes);
  bytes.append(kMagic.data(), kMagic.size());
  AppendNumber(key.has_value() ? kSealed : kPlain, 4, bytes);
  AppendNumber(header.size(), 4, bytes);
  AppendNumber(payload, 8, bytes);
  bytes += header;
  bytes += entry.executable;
  bytes += entry.graph;
  const Digest checksum = key.has_value() ? KeyedBlake3Of(*key, bytes) : Blake3Of(bytes);
  bytes.append(checksum.view().data(), checksum.view().size());
  return bytes;
}

absl::StatusOr<Entry> DecodeEntry(std::string bytes, const SealKey& key) {
  KILN_ASSIGN_OR_RETURN(Head head, ReadHead(bytes, bytes.size()));
  const absl::string_view all = bytes;
  const absl::string_view sum = all.substr(all.size() - kChecksumBytes),
                          rest = all.substr(0, all.size() - kChecksumBytes);
  if (SaysItIsSealed(all) != key.has_value()) {
    return key.has_value() ? Corrupt("seal", "it has none, and only sealed ones count where there is a key")
                           : Corrupt("seal", "it has one, and there is no key to check it by");
  }
  if (key.has_value()) {
    if (!SameBytes(KeyedBlake3Of(*key, rest).view(), sum)) {
      return Corrupt("seal", "it is not this key's, or its bytes are not those that were sealed");
    }
  } else if (Blake3Of(rest).view() != sum) {
    return Corrupt("checksum", "its bytes are not those that were written");
  }
  Entry entry;
  entry.executable = bytes.substr(head.payload, head.header.executable_bytes());
  entry.graph = bytes.substr(head.payload + head.header.executable_bytes(), head.header.graph_bytes());
  entry.header = std::move(head.header);
  return entry;
}

absl::StatusOr<v1::StoredHeader> DecodeHead(absl::string_view head, uint64_t size) {
  KILN_ASSIGN_OR_RETURN(Head read, ReadHead(head, size));
  return std::move(read.header);
}

std::string MissingFeature(const v1::Target& target, const v1::Target& machine) {
  const absl::flat_hash_set<absl::string_view> present(machine.features().begin(), machine.features().end());
  for (const std::string& feature : target.features()) {
    if (!feature.empty() && feature[0] == '+' && !present.contains(feature)) return feature;
  }
  return "";
}

absl::Status CheckWanted(const v1::StoredHeader& found, const v1::StoredHeader& wanted) {
  struct Row {
    const char* name;
    const std::string& (v1::StoredHeader::*field)() const;
    bool digest;
  };
  static constexpr Row kRows[] = {
      {"key", &v1::StoredHeader::key, true},
      {"graph_hash", &v1::StoredHeader::graph_hash, true},
      {"compiler", &v1::StoredHeader::compiler, false},
      {"options", &v1::StoredHeader::options, false},
      {"limits", &v1::StoredHeader::limits, false},
      {"target_fingerprint", &v1::StoredHeader::target_fingerprint, true},
  };
  for (const Row& row : kRows) {
    const std::string &has = (found.*row.field)(), &wants = (wanted.*row.field)();
    if (has != wants) {
      return Corrupt(row.name, "it is of ", Shown(has, row.digest), ", not of ", Shown(wants, row.digest));
    }
  }
  if (found.target().kind() != wanted.target().kind() || found.target().triple() != wanted.target().triple()) {
    return Corrupt("target", "it is for another kind of machine, ", found.target().triple());
  }
  const std::string missing = MissingFeature(found.target(), wanted.target());
  if (!missing.empty()) return Corrupt("target.features", "it needs ", missing, ", which this machine lacks");
  return absl::OkStatus();
}

namespace {

template <typename Message>
absl::Status CheckMade(const Entry& entry) {
  Message made;
  if (!made.ParseFromString(entry.executable)) return Corrupt("executable", "it cannot be read");
  if (made.target().SerializeAsString() != entry.header.target().SerializeAsString()) {
    return Corrupt("target", "the executable's is not the header's");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckContents(const Entry& entry) {
  v1::Graph graph;
  if (!graph.ParseFromString(entry.graph)) return Corrupt("graph", "it cannot be read");
  const auto hash = HashGraph(graph);
  if (!hash.ok()) return Corrupt("graph", hash.status().message());
  if (hash->Bytes() != entry.header.graph_hash()) {
    return Corrupt("graph_hash", "the graph's is ", hash->Hex(), ", the header says ",
                   absl::BytesToHexString(entry.header.graph_hash()));
  }
  return entry.header.several_devices() ? CheckMade<v1::MultiProgram>(entry) : CheckMade<v1::Executable>(entry);
}

}  // namespace kiln::store
