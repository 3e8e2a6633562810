#include "base/store/bundle.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/store/bundle_pieces.h"

namespace kiln::store {

BundleWriter::BundleWriter(std::string path, const SealKey& key)
    : path_(std::move(path)), draft_(absl::StrCat(path_, ".", getpid())), key_(key), file_(draft_, std::ios::binary) {
  file_ << BundleBegin();
}

BundleWriter::~BundleWriter() {
  if (file_.is_open()) std::remove(draft_.c_str());
}

absl::Status BundleWriter::Failure() const { return absl::UnavailableError(absl::StrCat("cannot write ", path_)); }

absl::Status BundleWriter::Add(Entry& entry) {
  KILN_ASSIGN_OR_RETURN(const std::string bytes, EncodeEntry(entry, key_));
  file_ << EntryBegin(bytes.size()) << bytes;
  return file_ ? absl::OkStatus() : Failure();
}

absl::Status BundleWriter::Finish() {
  file_ << BundleEnd();
  file_.close();
  if (file_ && std::rename(draft_.c_str(), path_.c_str()) == 0) return absl::OkStatus();
  std::remove(draft_.c_str());
  return Failure();
}

absl::StatusOr<BundleReader> BundleReader::Open(const std::string& path, const SealKey& key, Trust trust) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<int64_t>(file.tellg()) : -1;
  if (size < 0) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  file.seekg(0);
  BundleReader reader(std::move(file), static_cast<uint64_t>(size), key, trust);
  std::string magic(kBundleMagic.size(), '\0');
  if (reader.left_ < magic.size() || !reader.file_.read(magic.data(), static_cast<std::streamsize>(magic.size())) ||
      magic != kBundleMagic) {
    return BrokenBundle(absl::StrCat(path, " is none"));
  }
  reader.left_ -= magic.size();
  KILN_ASSIGN_OR_RETURN(const uint64_t version, reader.ReadNumber(4));
  if (version != kBundleVersion) {
    return BrokenBundle(absl::StrCat("layout ", version, "; this program reads ", kBundleVersion));
  }
  return reader;
}

absl::StatusOr<uint64_t> BundleReader::ReadNumber(int bytes) {
  char digits[8];
  if (left_ < static_cast<uint64_t>(bytes) || !file_.read(digits, bytes)) return BrokenBundle("it ends too early");
  left_ -= static_cast<uint64_t>(bytes);
  uint64_t number = 0;
  for (int i = 0; i < bytes; ++i) number |= uint64_t{static_cast<uint8_t>(digits[i])} << (8 * i);
  return number;
}

absl::StatusOr<std::optional<Entry>> BundleReader::Next() {
  KILN_ASSIGN_OR_RETURN(const uint64_t size, ReadNumber(8));
  if (size == 0) {
    if (left_ != 0) return BrokenBundle(absl::StrCat(left_, " bytes follow its end"));
    return std::nullopt;
  }
  if (size > left_) return BrokenBundle(absl::StrCat("an entry of ", size, " bytes, and ", left_, " are left"));
  std::string bytes(size, '\0');
  if (!file_.read(bytes.data(), static_cast<std::streamsize>(size))) return BrokenBundle("it cannot be read");
  left_ -= size;
  const bool unsealed = trust_ == Trust::kUnsealed && !SaysItIsSealed(bytes);
  absl::StatusOr<Entry> entry = DecodeEntry(std::move(bytes), unsealed ? std::nullopt : key_);
  absl::Status status = entry.status();
  if (status.ok()) status = CheckContents(*entry);
  if (status.ok()) return *std::move(entry);
  v1::ErrorDetail detail;
  detail.set_code(v1::CORRUPT_ENTRY);
  detail.set_field("entry");
  return MakeError(std::move(detail), status.message());
}

absl::StatusOr<ImportCounts> Import(BundleReader& bundle, DiskStore& store,
                                    const std::function<void(const Entry&, const absl::Status&)>& each) {
  ImportCounts counts;
  for (;;) {
    absl::StatusOr<std::optional<Entry>> next = bundle.Next();
    if (const auto detail = DetailOf(next.status()); detail.has_value() && detail->field() == "entry") {
      ++counts.refused;
      each(Entry(), next.status());
      continue;
    }
    if (!next.ok()) return std::move(next).status();
    if (!next->has_value()) return counts;
    Entry& entry = **next;
    if (store.Read(DiskStore::FileName(entry.header.key())).ok()) {
      ++counts.there;
    } else {
      KILN_RETURN_IF_ERROR(store.Publish(entry));
      ++counts.taken;
    }
    each(entry, absl::OkStatus());
  }
}

bool IsBundle(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic(kBundleMagic.size(), '\0');
  return file.read(magic.data(), static_cast<std::streamsize>(magic.size())) && magic == kBundleMagic;
}

std::string PrintWarmList(const std::vector<WarmProgram>& programs) {
  std::string text = "# Programs for kilnd --warm_up: the graph's hash, the options of its compilation\n";
  for (const WarmProgram& program : programs)
    absl::StrAppend(&text, program.graph_hash.Hex(), " ", program.options, "\n");
  return text;
}

absl::StatusOr<std::vector<WarmProgram>> ParseWarmList(absl::string_view text) {
  std::vector<WarmProgram> programs;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const auto hash = GraphHash::FromHex(line.substr(0, line.find(' ')));
    if (!hash.has_value()) {
      return MakeError(v1::BAD_ARGUMENT,
                       absl::StrCat("line ", number, ": it begins with no graph's hash, which has 64 digits"));
    }
    programs.push_back({*hash, std::string(absl::StripAsciiWhitespace(line.substr(64)))});
  }
  return programs;
}

}  // namespace kiln::store
