// .safetensors files (base/safetensors_names.h): tensors by name.
#ifndef KILN_CLIENT_CPP_ARRAYS_SAFETENSORS_H_
#define KILN_CLIENT_CPP_ARRAYS_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/arrays/host_tensor.h"

namespace kiln::client {

// Writes tensors, which are not copied, in the order of their names, and texts beside them ("__metadata__").
// INVALID_ARGUMENT for a dtype that the format has no name for, UNAVAILABLE where the file cannot be written; both name
// the path.
absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, const HostTensor*>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

// The constants of a model, as `kiln import model.onnx -o model.kgraph` writes them beside its graph, by the slot with
// which each one's name begins ("3_weight"). NOT_FOUND where the file cannot be read, INVALID_ARGUMENT where it is not
// such a file; both name the path.
absl::StatusOr<std::map<uint32_t, HostTensor>> ReadConstants(const std::string& path);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_ARRAYS_SAFETENSORS_H_
