// What .safetensors files call dtypes.
//
// Such a file is the length of its header (8 bytes, little-endian), the header, and the
// tensors' bytes. The header is a JSON object: of each name, the dtype, the shape, and
// where its bytes begin and end behind the header; "__metadata__" is texts by name.
#ifndef KILN_BASE_SAFETENSORS_NAMES_H_
#define KILN_BASE_SAFETENSORS_NAMES_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "kiln/v1/dtype.pb.h"

namespace kiln {

// "BF16" -> BFLOAT16; none for what Kiln has not.
std::optional<v1::DType> DTypeOfSafetensors(absl::string_view name);

// BFLOAT16 -> "BF16"; "" for what the format has no name for.
absl::string_view SafetensorsName(v1::DType dtype);

}  // namespace kiln

#endif  // KILN_BASE_SAFETENSORS_NAMES_H_
