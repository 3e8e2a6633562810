// What the adapter is asked about memory on a server: by the stream of a client that has one, else by calls that wait.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/clients/adapters/cpp_adapter.h"

namespace kiln::adapter {

absl::StatusOr<Memory> Adapter::Uploaded(Connected& one, const Json& ask, const HostTensor& tensor) {
  KILN_ASSIGN_OR_RETURN(const auto stream, one.stream());
  Memory made = {Text(ask, "client"), {}, {}, tensor.dtype, tensor.shape};
  if (stream != nullptr) {
    made.named = stream->Upload(tensor);
  } else {
    KILN_ASSIGN_OR_RETURN(made.owned, one.client->Upload(tensor, Text(ask, "device")));
  }
  return made;
}

absl::StatusOr<HostTensor> Adapter::Fetched(Connected& one, const Memory& memory) {
  KILN_ASSIGN_OR_RETURN(const auto stream, one.stream());
  if (stream == nullptr) return one.client->Download(memory.owned);
  HostTensor tensor{memory.dtype, memory.shape, ""};
  const auto bytes = client::ByteCount(memory.dtype, memory.shape).value_or(0);
  KILN_ASSIGN_OR_RETURN(tensor.bytes, stream->Read(memory.Ref(), static_cast<uint64_t>(bytes)).get());
  return tensor;
}

Answer Adapter::Upload(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(Memory made, Uploaded(*one, ask, TensorOf(ask["tensor"])));
  Keep(Text(ask, "as"), std::move(made));
  return Json::object();
}

Answer Adapter::Allocate(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(client::DeviceBuffer made, one->client->Allocate(Number(ask["bytes"])));
  Keep(Text(ask, "as"), {Text(ask, "client"), std::move(made), {}, v1::DTYPE_UNSPECIFIED, {}});
  return Json::object();
}

Answer Adapter::Write(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(const auto buffer, BufferOf(ask["buffer"]));
  KILN_RETURN_IF_ERROR(one->client->Write(buffer->owned, Decoded(ask, "data"), Number(ask.value("offset", Json(0)))));
  return Json::object();
}

Answer Adapter::Read(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(const auto buffer, BufferOf(ask["buffer"]));
  if (ask.contains("bytes")) {
    const uint64_t offset = Number(ask.value("offset", Json(0)));
    KILN_ASSIGN_OR_RETURN(const std::string bytes, one->client->Read(buffer->owned, offset, Number(ask["bytes"])));
    return Json{{"data", Encoded(bytes)}};
  }
  KILN_ASSIGN_OR_RETURN(const HostTensor tensor, Fetched(*one, *buffer));
  return Json{{"tensor", Told(tensor)}};
}

Answer Adapter::Free(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(const auto stream, one->stream());
  std::vector<v1::BufferRef> named;
  for (const Json& name : ask["buffers"]) {
    KILN_ASSIGN_OR_RETURN(const auto buffer, BufferOf(name));
    if (!buffer->owned.valid()) named.push_back(buffer->named);
    absl::MutexLock lock(&mutex_);
    buffers_.erase(name.get<std::string>());
  }
  if (stream != nullptr && !named.empty()) stream->Free(named);
  one->client->FlushFrees();
  return Json::object();
}

Answer Adapter::Describe(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(const v1::BufferDescription said, one->client->Describe(Number(ask["handle"])));
  return Json{{"bytes", said.bytes()}};
}

Answer Adapter::Transfer(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  HostTensor sent{v1::UINT8, {static_cast<int64_t>(Number(ask["bytes"]))}, std::string(Number(ask["bytes"]), '\0')};
  for (size_t at = 0; at < sent.bytes.size(); ++at) sent.bytes[at] = static_cast<char>(at % 251);
  KILN_ASSIGN_OR_RETURN(const Memory memory, Uploaded(*one, ask, sent));
  KILN_ASSIGN_OR_RETURN(const HostTensor back, Fetched(*one, memory));
  uint64_t wrong = 0;
  for (size_t at = 0; at < sent.bytes.size(); ++at) wrong += sent.bytes[at] != back.bytes[at] ? 1 : 0;
  return Json{{"wrong", wrong}};
}

}  // namespace kiln::adapter
