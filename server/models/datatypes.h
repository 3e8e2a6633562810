// What the open inference protocol calls the types of elements.
#ifndef KILN_SERVER_MODELS_DATATYPES_H_
#define KILN_SERVER_MODELS_DATATYPES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "kiln/v1/dtype.pb.h"

namespace inference {
enum DataType : int;  // of model_config.proto
}

namespace kiln::server {

// A row of the table; rows live for ever.
struct Datatype {
  v1::DType dtype;
  absl::string_view name;  // "FP32"
  inference::DataType in_config;
  uint64_t bytes;           // of an element
  absl::string_view typed;  // the field of InferTensorContents; empty: such tensors travel raw
};

// Null for types that the protocol has no name for, such as 8-bit floats.
const Datatype* DatatypeOf(v1::DType dtype);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_DATATYPES_H_
