#include "base/capture/capture_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::capture {
namespace {

// What a finish takes, which has to fit in any case.
constexpr uint64_t kFinishBytes = 8;

absl::Status NoCapture(const std::string& path, absl::string_view why) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(path, " is no capture of kilnd's: ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Writer>> Writer::Create(const std::string& path, const v1::CaptureHeader& header,
                                                       uint64_t max_bytes) {
  // What clients sent is nobody else's business.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    const std::string text = absl::StrCat("cannot make the capture ", path, ": ", std::strerror(errno));
    return errno == EEXIST ? absl::AlreadyExistsError(text) : absl::UnavailableError(text);
  }
  std::unique_ptr<Writer> writer(new Writer(file, max_bytes));
  v1::CaptureEntry entry;
  *entry.mutable_header() = header;
  entry.mutable_header()->set_version(kVersion);
  if (writer->Add(entry)) return writer;
  if (!writer->error().ok()) return writer->error();
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(max_bytes, " bytes are too few for a capture"));
}

Writer::~Writer() {
  Finish(/*full=*/false);
  close(file_);
}

bool Writer::Add(const v1::CaptureEntry& entry) {
  if (finished_) return false;
  const uint64_t size = entry.ByteSizeLong();
  if (size > kMaxEntryBytes || bytes_ + size + 2 * kFinishBytes > max_bytes_) {
    Finish(/*full=*/true);
    return false;
  }
  return Append(entry);
}

void Writer::Finish(bool full) {
  if (finished_) return;
  v1::CaptureEntry entry;
  entry.mutable_finish()->set_full(full);
  Append(entry);
  finished_ = true;
}

bool Writer::Append(const v1::CaptureEntry& entry) {
  std::string bytes;
  for (uint64_t size = entry.ByteSizeLong();; size >>= 7) {
    bytes.push_back(static_cast<char>(size < 0x80 ? size : (size & 0x7F) | 0x80));
    if (size < 0x80) break;
  }
  entry.AppendToString(&bytes);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written = write(file_, bytes.data() + at, bytes.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      error_ = absl::UnavailableError(absl::StrCat("cannot write the capture: ", std::strerror(errno)));
      finished_ = true;
      return false;
    }
    at += written;
    bytes_ += written;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Reader>> Reader::Open(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  std::unique_ptr<Reader> reader(new Reader(file));
  v1::CaptureEntry entry;
  if (!reader->ReadOne(entry) || !entry.has_header()) return NoCapture(path, "it does not begin with a header");
  reader->header_ = entry.header();
  if (reader->header_.version() != kVersion) {
    return NoCapture(path, absl::StrCat("its version is ", reader->header_.version(), ", not ", kVersion));
  }
  return reader;
}

Reader::~Reader() { std::fclose(file_); }

bool Reader::Next(v1::CaptureEntry& entry) {
  if (!ReadOne(entry)) return false;
  if (!entry.has_finish()) return true;
  ending_ = entry.finish().full() ? Ending::kFull : Ending::kFinished;
  return false;
}

bool Reader::ReadOne(v1::CaptureEntry& entry) {
  uint64_t size = 0;
  for (int shift = 0;; shift += 7) {
    const int byte = std::fgetc(file_);
    if (byte == EOF) {
      ending_ = shift == 0 ? Ending::kCut : Ending::kTorn;
      return false;
    }
    size |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) break;
    if (shift > 28) break;
  }
  ending_ = Ending::kTorn;
  if (size > kMaxEntryBytes) return false;
  // As it comes, so that a torn length takes no memory.
  buffer_.clear();
  while (buffer_.size() < size) {
    const size_t had = buffer_.size(), piece = std::min<uint64_t>(size - had, 1 << 20);
    buffer_.resize(had + piece);
    if (std::fread(&buffer_[had], 1, piece, file_) != piece) return false;
  }
  return entry.ParseFromString(buffer_);
}

}  // namespace kiln::capture
