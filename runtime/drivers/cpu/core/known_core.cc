#include "runtime/drivers/cpu/core/known_core.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/store/folder.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "kiln/v1/stored_program.pb.h"
#include "runtime/drivers/cpu/core/measure_core.h"

namespace kiln::runtime::cpu {
namespace {

using Core = v1::Target::Tuning::Core;

constexpr uint64_t kMaxFileBytes = 1 << 16;
constexpr size_t kMaxNameBytes = 100;

absl::StatusOr<Core> Read(store::Folder& folder, const std::string& name, const std::string& cpu) {
  KILN_ASSIGN_OR_RETURN(const store::Folder::Contents contents, folder.Read(name, kMaxFileBytes));
  v1::StoredCore stored;
  google::protobuf::TextFormat::Parser parser;
  struct : google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  } quiet;
  parser.RecordErrorsTo(&quiet);
  if (!parser.ParseFromString(contents.bytes, &stored))
    return absl::DataLossError("it is no text of kiln.v1.StoredCore");
  if (stored.cpu() != cpu) return absl::DataLossError(absl::StrCat("it is of another CPU, \"", stored.cpu(), "\""));
  if (stored.version() != kCoreVersion)
    return absl::DataLossError(absl::StrCat("it was measured by version ", stored.version(), ", not ", kCoreVersion));
  const Core core = Rounded(stored.core());
  if (core.ByteSizeLong() == 0) return absl::DataLossError("it has no figures");
  return core;
}

// Under another name first: whoever reads finds all of it or nothing.
absl::Status Write(store::Folder& folder, const std::string& name, const v1::StoredCore& stored) {
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(stored, &text)) return absl::InternalError("not written as text");
  const std::string draft = absl::StrCat(name, ".", getpid());
  const auto failure = [&](const char* what) { return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", draft)); };
  folder.RemoveAbandoned(draft);  // of a process of that number that died
  const int file = folder.Create(draft);
  if (file < 0) return failure("making");
  absl::Status status;
  for (absl::string_view left = text; status.ok() && !left.empty();) {
    const ssize_t written = folder.Write(file, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) status = failure("writing");
    if (written > 0) left.remove_prefix(static_cast<size_t>(written));
  }
  if (status.ok() && folder.Sync(file) != 0) status = failure("syncing");
  if (status.ok() && folder.Rename(draft, name) != 0) status = failure("renaming");
  folder.Close(file);
  if (!status.ok()) folder.Remove(draft);
  return status;
}

}  // namespace

KnownCore FindCore(const std::string& folder, const std::string& cpu, absl::FunctionRef<Core()> measure) {
  KnownCore known;
  std::unique_ptr<store::Folder> opened;
  if (!folder.empty() && !cpu.empty()) {
    known.file = CoreFileName(cpu);
    auto open = store::OpenFolder(folder, /*create=*/true);
    known.read = known.written = open.status();
    if (open.ok()) opened = *std::move(open);
  }
  if (opened != nullptr) {
    absl::StatusOr<Core> read = Read(*opened, known.file, cpu);
    known.read = read.status();
    if (read.ok()) {
      known.core = *std::move(read);
      return known;
    }
  }
  known.core = Rounded(measure());
  known.measured = known.core.ByteSizeLong() != 0;
  if (opened == nullptr || !known.measured) return known;
  v1::StoredCore stored;
  stored.set_cpu(cpu);
  stored.set_version(kCoreVersion);
  *stored.mutable_core() = known.core;
  known.written = Write(*opened, known.file, stored);
  return known;
}

std::string CpuModel(absl::string_view cpuinfo) {
  std::string words[5];
  constexpr absl::string_view kNames[] = {"vendor_id", "cpu family", "model", "stepping", "model name"};
  for (const absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    const auto* name = std::find(std::begin(kNames), std::end(kNames), absl::StripAsciiWhitespace(parts.first));
    if (name == std::end(kNames)) continue;
    std::string& word = words[name - kNames];
    if (word.empty()) word = std::string(absl::StripAsciiWhitespace(parts.second));
  }
  if (words[0].empty() || words[2].empty()) return "";
  return std::string(
      absl::StripAsciiWhitespace(absl::StrCat(words[0], " ", words[1], " ", words[2], " ", words[3], " ", words[4])));
}

std::string CoreFileName(absl::string_view cpu) {
  std::string name = "core";
  for (const char c : cpu) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      if (name == "core") name += '-';
      name += c;
    } else if (name.back() != '-') {
      name += '-';
    }
    if (name.size() >= kMaxNameBytes) break;
  }
  return absl::StrCat(name, ".txtpb");
}

}  // namespace kiln::runtime::cpu
