#include "runtime/drivers/remote/protocol.h"

#include "base/check.h"
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

Hello UnpackHello(cluster::Unpacker& message) {
  Hello hello;
  hello.host = std::string(message.Bytes());
  hello.process = message.Number<int64_t>();
  hello.devices.resize(message.Number<uint32_t>());
  for (Hello::Device& device : hello.devices) {
    device.description = std::string(message.Bytes());
    KILN_CHECK(device.target.ParseFromString(std::string(message.Bytes())));
    device.base = message.Number<uint64_t>();
    device.reach = message.Number<uint64_t>();
    device.limit_bytes = message.Number<uint64_t>();
  }
  return hello;
}

void PackStatus(const absl::Status& status, cluster::Packer& message) {
  const auto detail = DetailOf(status);
  message.Number<int32_t>(status.raw_code()).Bytes(status.message());
  message.Bytes(detail.has_value() ? detail->SerializeAsString() : "");
}

absl::Status UnpackStatus(cluster::Unpacker& message) {
  const auto code = static_cast<absl::StatusCode>(message.Number<int32_t>());
  const absl::string_view text = message.Bytes(), bytes = message.Bytes();
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  v1::ErrorDetail detail;
  if (bytes.empty() || !detail.ParseFromString(std::string(bytes))) return absl::Status(code, text);
  return MakeError(std::move(detail), text);
}

}  // namespace kiln::runtime::remote
