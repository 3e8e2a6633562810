#include "runtime/drivers/remote/protocol.h"

#include <utility>

#include "base/error.h"

namespace kiln::runtime::remote {

std::string Pack(const Hello& hello) {
  cluster::Packer message = NewMessage(MessageKind::kHello);
  message.Bytes(hello.host).Number(hello.process).Number<uint32_t>(hello.devices.size());
  for (const Hello::Device& device : hello.devices) {
    message.Bytes(device.description).Bytes(device.target.SerializeAsString());
    message.Number(device.base).Number(device.reach).Number(device.limit_bytes);
  }
  return message.Take();
}

absl::StatusOr<Hello> UnpackHello(cluster::Unpacker& message) {
  // Of a device: two lengths, three numbers.
  constexpr uint64_t kLeast = 5 * sizeof(uint64_t);
  Hello hello;
  hello.host = std::string(message.Bytes());
  hello.process = message.Number<int64_t>();
  hello.devices.resize(message.Count<uint32_t>(kLeast));
  for (Hello::Device& device : hello.devices) {
    device.description = std::string(message.Bytes());
    const absl::string_view target = message.Bytes();
    if (!device.target.ParseFromArray(target.data(), static_cast<int>(target.size()))) {
      return cluster::BadMessage("offers a device of no target");
    }
    device.base = message.Number<uint64_t>();
    device.reach = message.Number<uint64_t>();
    device.limit_bytes = message.Number<uint64_t>();
    if (device.base == 0 || device.reach > UINT64_MAX - device.base) {
      return cluster::BadMessage("offers memory that goes beyond all addresses");
    }
  }
  if (!message.ok()) return cluster::BadMessage("ends within its hello");
  return hello;
}

void PackStatus(const absl::Status& status, cluster::Packer& message) {
  const auto detail = DetailOf(status);
  message.Number<int32_t>(status.raw_code()).Bytes(status.message());
  message.Bytes(detail.has_value() ? detail->SerializeAsString() : "");
}

absl::Status UnpackStatus(cluster::Unpacker& message) {
  const auto number = message.Number<int32_t>();
  const absl::string_view text = message.Bytes(), bytes = message.Bytes();
  if (!message.ok() || number < 0 || number > static_cast<int32_t>(absl::StatusCode::kUnauthenticated)) {
    return cluster::BadMessage("has no status");
  }
  const auto code = static_cast<absl::StatusCode>(number);
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  v1::ErrorDetail detail;
  if (bytes.empty() || !detail.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::Status(code, text);
  }
  return MakeError(std::move(detail), text);
}

}  // namespace kiln::runtime::remote
