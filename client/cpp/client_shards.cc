// Tensors to several devices, and back.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cpp/client.h"

namespace kiln::client {

absl::StatusOr<DeviceShards> Client::UploadShards(const HostTensor& tensor, const std::vector<std::string>& devices) {
  const auto parts = static_cast<int64_t>(devices.size());
  if (parts == 0 || tensor.shape.empty() || tensor.shape[0] % parts != 0) {
    return MakeError(v1::UNSUPPORTED_SHARD, absl::StrCat("UploadShards: ", ShapeText(tensor.shape),
                                                         " has no first axis of ", parts, " equal shares"));
  }
  DeviceShards made;
  made.axis = 0;
  HostTensor share{tensor.dtype, tensor.shape, ""};
  share.shape[0] /= parts;
  const size_t bytes = tensor.bytes.size() / devices.size();
  for (size_t i = 0; i < devices.size(); ++i) {
    share.bytes = tensor.bytes.substr(i * bytes, bytes);
    KILN_ASSIGN_OR_RETURN(DeviceBuffer buffer, Upload(share, devices[i]));
    made.shards.push_back(std::move(buffer));
  }
  return made;
}

absl::StatusOr<DeviceShards> Client::UploadWhole(const HostTensor& tensor, const std::vector<std::string>& devices) {
  if (devices.empty()) return MakeError(v1::UNSUPPORTED_SHARD, "UploadWhole: to no device");
  DeviceShards made;
  made.axis = 0;
  HostTensor row = tensor;
  row.shape.insert(row.shape.begin(), 1);
  for (const std::string& device : devices) {
    KILN_ASSIGN_OR_RETURN(DeviceBuffer buffer, Upload(row, device));
    made.shards.push_back(std::move(buffer));
  }
  return made;
}

absl::StatusOr<HostTensor> Client::Download(const DeviceShards& shards) {
  if (shards.shards.empty()) return MakeError(v1::BAD_ARGUMENT, "Download: of no shards");
  if (!shards.axis) return Download(shards.shards[0]);
  HostTensor whole{shards.dtype(), shards.shape(), ""};
  if (*shards.axis >= whole.shape.size()) {
    return MakeError(v1::BAD_ARGUMENT,
                     absl::StrCat("Download: no axis ", *shards.axis, " in shards of ", ShapeText(whole.shape)));
  }
  std::vector<std::string> parts;
  for (const DeviceBuffer& shard : shards.shards) {
    KILN_ASSIGN_OR_RETURN(std::string bytes, Read(shard));
    parts.push_back(std::move(bytes));
  }
  // Of each row of the axes before the split one, each share's part in turn.
  size_t rows = 1;
  for (size_t axis = 0; axis < *shards.axis; ++axis) rows *= static_cast<size_t>(whole.shape[axis]);
  for (size_t row = 0; row < rows; ++row) {
    for (const std::string& part : parts) whole.bytes.append(part, row * (part.size() / rows), part.size() / rows);
  }
  return whole;
}

}  // namespace kiln::client
