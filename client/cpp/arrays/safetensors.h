// .safetensors files (base/safetensors_names.h): tensors by name.
#ifndef KILN_CLIENT_CPP_ARRAYS_SAFETENSORS_H_
#define KILN_CLIENT_CPP_ARRAYS_SAFETENSORS_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/arrays/host_tensor.h"

namespace kiln::client {

// Writes tensors, which are not copied, in the order of their names. INVALID_ARGUMENT for a dtype that the format has
// no name for, UNAVAILABLE where the file cannot be written; both name the path.
absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, const HostTensor*>& tensors);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_ARRAYS_SAFETENSORS_H_
