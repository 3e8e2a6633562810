// Tensors that a model keeps in files beside it.
//
// A model names the file, so the name is hostile: only a regular file below the model's own
// folder is read, found by names that are neither "..", nor absolute, nor links.
#ifndef KILN_MODELS_ONNX_EXTERNAL_DATA_H_
#define KILN_MODELS_ONNX_EXTERNAL_DATA_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace kiln::onnx {

// `length` bytes of `folder`/`location` from `offset` on. BAD_ARGUMENT for a location that is not
// allowed or a range that the file does not have; NOT_FOUND where there is no such file.
// Blocks for the file. Nothing is allocated before the file is known to be that long.
absl::StatusOr<std::string> ReadExternal(const std::string& folder, const std::string& location, int64_t offset,
                                         int64_t length);

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_EXTERNAL_DATA_H_
