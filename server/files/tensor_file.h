// Which tensors a file holds, and where: .npy, with one, and .safetensors.
#ifndef KILN_SERVER_FILES_TENSOR_FILE_H_
#define KILN_SERVER_FILES_TENSOR_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/v1/dtype.pb.h"
#include "server/files/data_folder.h"

namespace kiln::server {

// Bytes [offset, offset + bytes) of the file; `bytes` is what its dtype and shape take.
struct StoredTensor {
  std::string name;  // "" in a .npy
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Told apart by how they begin. In the order of their places in the file. BAD_ARGUMENT,
// saying what is wrong, for a file that is neither, is not whole, or is of no dtype that
// Kiln has. Of a file's text, no more is believed than was checked.
absl::StatusOr<std::vector<StoredTensor>> ListTensors(const DataFile& file);

// The same of a .safetensors alone, with the texts that it has by name ("__metadata__"); what is no text is left out.
struct NotedTensors {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};
absl::StatusOr<NotedTensors> ListSafetensors(const DataFile& file);

}  // namespace kiln::server

#endif  // KILN_SERVER_FILES_TENSOR_FILE_H_
