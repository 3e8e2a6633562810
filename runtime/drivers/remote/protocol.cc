#include "runtime/drivers/remote/protocol.h"

#include "base/check.h"
#include "base/error.h"

namespace kiln::runtime::remote {

std::string Pack(const Hello& hello) {
  cluster::Packer letter = NewLetter(LetterKind::kHello);
  letter.Bytes(hello.host).Number(hello.process).Number<uint32_t>(hello.devices.size());
  for (const Hello::Device& device : hello.devices) {
    letter.Bytes(device.description).Bytes(device.target.SerializeAsString());
    letter.Number(device.base).Number(device.reach).Number(device.limit_bytes);
  }
  return letter.Take();
}

Hello UnpackHello(cluster::Unpacker& letter) {
  Hello hello;
  hello.host = std::string(letter.Bytes());
  hello.process = letter.Number<int64_t>();
  hello.devices.resize(letter.Number<uint32_t>());
  for (Hello::Device& device : hello.devices) {
    device.description = std::string(letter.Bytes());
    KILN_CHECK(device.target.ParseFromString(std::string(letter.Bytes())));
    device.base = letter.Number<uint64_t>();
    device.reach = letter.Number<uint64_t>();
    device.limit_bytes = letter.Number<uint64_t>();
  }
  return hello;
}

void PackStatus(const absl::Status& status, cluster::Packer& letter) {
  const auto detail = DetailOf(status);
  letter.Number<int32_t>(status.raw_code()).Bytes(status.message());
  letter.Bytes(detail.has_value() ? detail->SerializeAsString() : "");
}

absl::Status UnpackStatus(cluster::Unpacker& letter) {
  const auto code = static_cast<absl::StatusCode>(letter.Number<int32_t>());
  const absl::string_view message = letter.Bytes(), bytes = letter.Bytes();
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  v1::ErrorDetail detail;
  if (bytes.empty() || !detail.ParseFromString(std::string(bytes))) return absl::Status(code, message);
  return MakeError(std::move(detail), message);
}

}  // namespace kiln::runtime::remote
