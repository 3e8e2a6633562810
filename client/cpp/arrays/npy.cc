#include "client/cpp/arrays/npy.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/npy_header.h"

namespace kiln::client {
namespace {

absl::Status Bad(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("not a .npy file that can be read: ", message));
}

}  // namespace

absl::StatusOr<HostTensor> ParseNpy(absl::string_view file) {
  KILN_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(file));
  file.remove_prefix(header.data_begin);
  HostTensor tensor{header.dtype, std::move(header.shape), ""};
  const std::optional<int64_t> bytes = ByteCount(tensor.dtype, tensor.shape);
  if (!bytes.has_value()) return Bad(absl::StrCat("a shape of ", ShapeText(tensor.shape), " has no size"));
  if (file.size() != static_cast<uint64_t>(*bytes)) {
    return Bad(
        absl::StrCat(TypeText(tensor.dtype, tensor.shape), " takes ", *bytes, " bytes; the file has ", file.size()));
  }
  tensor.bytes = std::string(file);
  return tensor;
}

absl::StatusOr<std::string> FormatNpy(const HostTensor& tensor) {
  const absl::string_view descr = NpyDescr(tensor.dtype);
  if (descr.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(".npy has no ", DTypeName(tensor.dtype), "; Cast the result to float32 in the graph"));
  }
  std::string header =
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", ShapeText(tensor.shape), ", }");
  // Spaces and a newline, so that the array begins at a multiple of 64 bytes.
  const size_t fixed = kNpyMagic.size() + 2 + 2;
  header.append(63 - (fixed + header.size()) % 64, ' ').push_back('\n');
  std::string file(kNpyMagic);
  file.append("\x01\x00", 2);
  file.push_back(static_cast<char>(header.size() & 0xff));
  file.push_back(static_cast<char>(header.size() >> 8));
  return absl::StrCat(file, header, tensor.bytes);
}

absl::StatusOr<HostTensor> ReadNpy(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  const std::string file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  absl::StatusOr<HostTensor> tensor = ParseNpy(file);
  if (!tensor.ok()) return Annotate(tensor.status(), path);
  return tensor;
}

absl::Status WriteNpy(const std::string& path, const HostTensor& tensor) {
  absl::StatusOr<std::string> file = FormatNpy(tensor);
  if (!file.ok()) return Annotate(file.status(), path);
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << *file;
  stream.close();
  if (!stream) return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace kiln::client
