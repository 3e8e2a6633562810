// Captures: the requests that a server was sent, to be sent once more
// (proto/kiln/v1/capture.proto).
#ifndef KILN_BASE_CAPTURE_CAPTURE_FILE_H_
#define KILN_BASE_CAPTURE_CAPTURE_FILE_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kiln/v1/capture.pb.h"

namespace kiln::capture {

inline constexpr uint32_t kVersion = 1;
// An entry is a message of gRPC's and little more; what is longer is none.
inline constexpr uint64_t kMaxEntryBytes = uint64_t{1} << 31;

// The number of a session that the server has not, whose token a client gave all the same.
constexpr uint64_t kNoSuchSession = ~uint64_t{0};

// Not for several threads. What was added is the kernel's on return, so that it is there
// whatever becomes of the process.
class Writer {
 public:
  // A new file; NOT_FOUND, ALREADY_EXISTS or UNAVAILABLE if there can be none. `max_bytes`
  // bounds it.
  static absl::StatusOr<std::unique_ptr<Writer>> Create(const std::string& path, const v1::CaptureHeader& header,
                                                        uint64_t max_bytes);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // False if it does not fit, or cannot be written (then error() says why): the file is
  // finished, and takes no more.
  bool Add(const v1::CaptureEntry& entry);
  // Marks the end; later calls do nothing.
  void Finish(bool full);

  uint64_t bytes() const { return bytes_; }
  const absl::Status& error() const { return error_; }

 private:
  Writer(int file, uint64_t max_bytes) : file_(file), max_bytes_(max_bytes) {}
  bool Append(const v1::CaptureEntry& entry);

  const int file_;
  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  bool finished_ = false;
  absl::Status error_;
};

// Reads a file from its beginning. Not for several threads.
class Reader {
 public:
  // INVALID_ARGUMENT if it is no capture, or of another version.
  static absl::StatusOr<std::unique_ptr<Reader>> Open(const std::string& path);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const v1::CaptureHeader& header() const { return header_; }

  // The next entry; false at the end.
  bool Next(v1::CaptureEntry& entry);

  // At the end: how the file ended.
  enum class Ending {
    kFinished,  // as the server ended
    kFull,      // as large as it might become
    kCut,       // between two entries: the server did not end well
    kTorn,      // in the middle of an entry
  };
  Ending ending() const { return ending_; }

 private:
  explicit Reader(std::FILE* file) : file_(file) {}
  // False at the end, which `ending_` then says.
  bool ReadOne(v1::CaptureEntry& entry);

  std::FILE* const file_;
  v1::CaptureHeader header_;
  Ending ending_ = Ending::kCut;
  std::string buffer_;
};

}  // namespace kiln::capture

#endif  // KILN_BASE_CAPTURE_CAPTURE_FILE_H_
