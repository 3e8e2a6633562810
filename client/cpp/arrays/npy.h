// NumPy's .npy files, versions 1 to 3: one tensor a file.
//
// Read are little-endian files in C order of bool, int8 to int64, uint8 to uint64,
// float16, float32 and float64. Others are refused with the NumPy call that makes
// a file which can be read.
#ifndef KILN_CLIENT_CPP_ARRAYS_NPY_H_
#define KILN_CLIENT_CPP_ARRAYS_NPY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/arrays/host_tensor.h"

namespace kiln::client {

// A file's contents as a tensor, and back. Bytes after the tensor are an error.
absl::StatusOr<HostTensor> ParseNpy(absl::string_view file);
// INVALID_ARGUMENT for a dtype that .npy has no name for (bfloat16, float8).
absl::StatusOr<std::string> FormatNpy(const HostTensor& tensor);

// Errors name the path. NOT_FOUND if there is no such file.
absl::StatusOr<HostTensor> ReadNpy(const std::string& path);
absl::Status WriteNpy(const std::string& path, const HostTensor& tensor);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_ARRAYS_NPY_H_
