// A TensorProto's elements as bytes, wherever the file keeps them.
#ifndef KILN_MODELS_ONNX_TENSOR_PROTO_H_
#define KILN_MODELS_ONNX_TENSOR_PROTO_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/arrays/host_tensor.h"

namespace onnx {
class TensorProto;
class SparseTensorProto;
}  // namespace onnx

namespace kiln::onnx {

// UNSUPPORTED_OP for an element type that Kiln does not have: strings, complex numbers, and
// those narrower than a byte.
absl::StatusOr<v1::DType> DTypeOf(int data_type);
// "float16", also for those that Kiln does not have.
std::string DataTypeName(int data_type);
// The other way; 0 for what ONNX does not have.
int DataTypeOf(v1::DType dtype);

// The beginning of a name of a stranger's, as messages and programs may have it: whole characters.
std::string Shown(const std::string& name);

// Where external data is, and how many bytes may still be taken; the bytes that are taken are
// subtracted. Without a folder external data is refused.
struct TensorSource {
  std::string folder;
  bool has_folder = false;
  int64_t bytes_left = 0;
  int64_t most_bytes = 0;
  int64_t most_rank = 16;
};

// MALFORMED_MESSAGE where elements and shape do not fit each other; GRAPH_TOO_LARGE. With `narrow`, integers of 4 and 2
// bits are taken, each as a byte, and it says whether they are that.
absl::StatusOr<client::HostTensor> ReadTensor(const ::onnx::TensorProto& tensor, TensorSource& source,
                                              bool* narrow = nullptr);
// Zeros but for the elements that it has.
absl::StatusOr<client::HostTensor> ReadSparse(const ::onnx::SparseTensorProto& tensor, TensorSource& source);

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_TENSOR_PROTO_H_
