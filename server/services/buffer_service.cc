// BufferService: device memory by handle. Write is in upload.cc, Read in download.cc.
#include <utility>

#include "base/error.h"
#include "kiln/v1/buffer_service.pb.h"
#include "server/messages/convert.h"
#include "server/messages/not_implemented.h"
#include "server/services/rpcs.h"
#include "server/services/shared_copy.h"

namespace kiln::server {
namespace {

// Answers with a description of `buffer`, or with why there is none.
template <typename Call>
void ReplyWith(Call& call, const absl::StatusOr<NamedBuffer>& buffer) {
  if (!buffer.ok()) return call.Reply(buffer.status());
  FillDescription(buffer->handle, *buffer->record, *call.response().mutable_buffer());
  call.Reply(absl::OkStatus());
}

absl::Span<const int64_t> ShapeOf(const google::protobuf::RepeatedField<int64_t>& shape) {
  return {shape.data(), static_cast<size_t>(shape.size())};
}

}  // namespace

void rpc::BufferService::Allocate(UnaryCall<v1::AllocateRequest, v1::AllocateResponse>& call) {
  const v1::AllocateRequest& message = call.request();
  switch (message.size_case()) {
    case v1::AllocateRequest::kBytes:
      return ReplyWith(call, call.env().engine.buffers().Allocate(message.device(), message.bytes(), call.session()));
    case v1::AllocateRequest::kType:
      return ReplyWith(call, call.env().engine.buffers().Allocate(message.device(), message.type().dtype(),
                                                                  ShapeOf(message.type().shape()), call.session()));
    case v1::AllocateRequest::SIZE_NOT_SET: break;
  }
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("size");
  call.Reply(MakeError(detail, "neither bytes nor a type was given"));
}

void rpc::BufferService::Copy(UnaryCall<v1::CopyRequest, v1::CopyResponse>& call) {
  const v1::CopyRequest& message = call.request();
  if (message.has_from_shared() || message.has_to_shared()) {
    return CopyShared(call.env(), message, call.session().get(), call.control(),
                      [&call](absl::Status status) { call.Reply(std::move(status)); });
  }
  const BufferAddress from = ToAddress(message.from()), to = ToAddress(message.to());
  const BufferTable& table = call.env().engine.buffers().table();
  Touched touched;
  touched.Reads(table.ExtentOf(from.handle, from.offset, message.bytes(), call.session().get()).extent);
  touched.Overwrites(table.ExtentOf(to.handle, to.offset, message.bytes(), call.session().get()).extent);
  if (absl::Status healthy = touched.Check(); !healthy.ok()) return call.Reply(std::move(healthy));
  call.env().engine.buffers().Copy(
      from, to, message.bytes(), call.session().get(), call.control(),
      [&call, touched](const absl::Status& status) { call.Reply(touched.Finish(status)); });
}

void rpc::BufferService::Fill(UnaryCall<v1::FillRequest, v1::FillResponse>& call) {
  const v1::FillRequest& message = call.request();
  const BufferAddress to = ToAddress(message.buffer());
  const auto bytes = message.bytes() == 0 ? absl::optional<uint64_t>() : message.bytes();
  Touched touched;
  touched.Overwrites(
      call.env().engine.buffers().table().ExtentOf(to.handle, to.offset, bytes, call.session().get()).extent);
  call.env().engine.buffers().Fill(
      to, message.bytes(), message.pattern(), call.session().get(), call.control(),
      [&call, touched](const absl::Status& status) { call.Reply(touched.Finish(status)); });
}

void rpc::BufferService::View(UnaryCall<v1::ViewRequest, v1::ViewResponse>& call) {
  const v1::ViewRequest& message = call.request();
  ReplyWith(call, call.env().engine.buffers().View(ToAddress(message.of()), message.bytes(), message.dtype(),
                                                   ShapeOf(message.shape()), call.session()));
}

void rpc::BufferService::Free(UnaryCall<v1::FreeRequest, v1::FreeResponse>& call) {
  const v1::FreeRequest& message = call.request();
  call.Reply(call.env().engine.buffers().Free({message.handle().data(), static_cast<size_t>(message.handle_size())},
                                              call.session().get()));
}

void rpc::BufferService::Describe(UnaryCall<v1::DescribeBufferRequest, v1::DescribeBufferResponse>& call) {
  ReplyWith(call, call.env().engine.buffers().Describe(call.request().handle(), call.session().get()));
}

void rpc::BufferService::ListTensors(UnaryCall<v1::ListTensorsRequest, v1::ListTensorsResponse>& call) {
  if (call.env().loader == nullptr) return call.Reply(NotImplemented("BufferService.ListTensors"));
  call.env().loader->List(call.request().file(), call.control(), [&call](auto tensors) {
    if (!tensors.ok()) return call.Reply(tensors.status());
    for (const StoredTensor& tensor : *tensors) {
      v1::StoredTensor* message = call.response().add_tensors();
      message->set_name(tensor.name);
      message->mutable_type()->set_dtype(tensor.dtype);
      message->mutable_type()->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
      message->set_bytes(tensor.bytes);
    }
    call.Reply(absl::OkStatus());
  });
}

void rpc::BufferService::Load(UnaryCall<v1::LoadRequest, v1::LoadResponse>& call) {
  if (call.env().loader == nullptr) return call.Reply(NotImplemented("BufferService.Load"));
  const v1::LoadRequest& message = call.request();
  call.env().loader->Load(message.file(), {message.tensor().begin(), message.tensor().end()}, message.device(),
                          call.session(), call.control(), [&call](auto loaded) {
                            if (!loaded.ok()) return call.Reply(loaded.status());
                            for (LoadedTensor& tensor : *loaded) {
                              v1::LoadedTensor* row = call.response().add_tensors();
                              row->set_name(tensor.name);
                              FillDescription(tensor.buffer.handle, *tensor.buffer.record, *row->mutable_buffer());
                            }
                            call.Reply(absl::OkStatus());
                          });
}

void rpc::BufferService::MapSharedMemory(UnaryCall<v1::MapSharedMemoryRequest, v1::MapSharedMemoryResponse>& call) {
  if (call.env().shared_memory == nullptr) return call.Reply(NotImplemented("BufferService.MapSharedMemory"));
  const auto handle = call.env().shared_memory->regions().Reserve(call.request().bytes(), call.session());
  if (!handle.ok()) return call.Reply(handle.status());
  call.response().set_handle(*handle);
  call.response().set_socket(call.env().shared_memory->path());
  call.Reply(absl::OkStatus());
}

}  // namespace kiln::server
