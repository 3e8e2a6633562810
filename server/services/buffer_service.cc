#include "server/services/buffer_service.h"

#include <utility>

#include "base/error.h"
#include "server/messages/convert.h"
#include "server/services/call.h"
#include "server/services/shared_copy.h"
#include "server/services/transfer.h"
#include "server/services/unimplemented.h"

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

grpc::ServerUnaryReactor* BufferServiceImpl::Allocate(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::AllocateRequest, v1::AllocateResponse>(env_, context, request, response, [this](auto& call) {
    const v1::AllocateRequest& message = call.request();
    switch (message.size_case()) {
      case v1::AllocateRequest::kBytes:
        return ReplyWith(call, env_.engine.buffers().Allocate(message.device(), message.bytes(), call.session()));
      case v1::AllocateRequest::kType:
        return ReplyWith(call, env_.engine.buffers().Allocate(message.device(), message.type().dtype(),
                                                              ShapeOf(message.type().shape()), call.session()));
      case v1::AllocateRequest::SIZE_NOT_SET: break;
    }
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field("size");
    call.Reply(MakeError(detail, "neither bytes nor a type was given"));
  });
}

grpc::ServerReadReactor<grpc::ByteBuffer>* BufferServiceImpl::Write(grpc::CallbackServerContext* context,
                                                                    grpc::ByteBuffer* response) {
  return StartUpload(env_, *context, response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* BufferServiceImpl::Read(grpc::CallbackServerContext* context,
                                                                    const grpc::ByteBuffer* request) {
  return StartDownload(env_, *context, *request);
}

grpc::ServerUnaryReactor* BufferServiceImpl::Copy(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Serve<v1::CopyRequest, v1::CopyResponse>(env_, context, request, response, [this](auto& call) {
    const v1::CopyRequest& message = call.request();
    if (message.has_from_shared() || message.has_to_shared()) {
      return CopyShared(env_, message, call.session().get(), call.control(),
                        [&call](absl::Status status) { call.Reply(std::move(status)); });
    }
    const BufferAddress from = ToAddress(message.from()), to = ToAddress(message.to());
    const BufferTable& table = env_.engine.buffers().table();
    Touched touched;
    touched.Reads(table.ExtentOf(from.handle, from.offset, message.bytes(), call.session().get()).extent);
    touched.Overwrites(table.ExtentOf(to.handle, to.offset, message.bytes(), call.session().get()).extent);
    if (absl::Status healthy = touched.Check(); !healthy.ok()) return call.Reply(std::move(healthy));
    env_.engine.buffers().Copy(from, to, message.bytes(), call.session().get(), call.control(),
                               /*keeps_place=*/false,
                               [&call, touched](const absl::Status& status) { call.Reply(touched.Finish(status)); });
  });
}

grpc::ServerUnaryReactor* BufferServiceImpl::Fill(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Serve<v1::FillRequest, v1::FillResponse>(env_, context, request, response, [this](auto& call) {
    const v1::FillRequest& message = call.request();
    const BufferAddress to = ToAddress(message.buffer());
    const auto bytes = message.bytes() == 0 ? absl::optional<uint64_t>() : message.bytes();
    Touched touched;
    touched.Overwrites(
        env_.engine.buffers().table().ExtentOf(to.handle, to.offset, bytes, call.session().get()).extent);
    env_.engine.buffers().Fill(to, message.bytes(), message.pattern(), call.session().get(),
                               [&call, touched](const absl::Status& status) { call.Reply(touched.Finish(status)); });
  });
}

grpc::ServerUnaryReactor* BufferServiceImpl::View(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Serve<v1::ViewRequest, v1::ViewResponse>(env_, context, request, response, [this](auto& call) {
    const v1::ViewRequest& message = call.request();
    ReplyWith(call, env_.engine.buffers().View(ToAddress(message.of()), message.bytes(), message.dtype(),
                                               ShapeOf(message.shape()), call.session()));
  });
}

grpc::ServerUnaryReactor* BufferServiceImpl::Free(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Serve<v1::FreeRequest, v1::FreeResponse>(env_, context, request, response, [this](auto& call) {
    const v1::FreeRequest& message = call.request();
    call.Reply(env_.engine.buffers().Free({message.handle().data(), static_cast<size_t>(message.handle_size())},
                                          call.session().get()));
  });
}

grpc::ServerUnaryReactor* BufferServiceImpl::Describe(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::DescribeBufferRequest, v1::DescribeBufferResponse>(
      env_, context, request, response, [this](auto& call) {
        ReplyWith(call, env_.engine.buffers().Describe(call.request().handle(), call.session().get()));
      });
}

grpc::ServerUnaryReactor* BufferServiceImpl::ListTensors(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::ListTensorsRequest, v1::ListTensorsResponse>(env_, context, request, response, [this](auto& call) {
    if (env_.loader == nullptr) return call.Reply(NotImplemented("BufferService.ListTensors"));
    env_.loader->List(call.request().file(), call.control(), [&call](auto tensors) {
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
  });
}

grpc::ServerUnaryReactor* BufferServiceImpl::Load(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Serve<v1::LoadRequest, v1::LoadResponse>(env_, context, request, response, [this](auto& call) {
    if (env_.loader == nullptr) return call.Reply(NotImplemented("BufferService.Load"));
    const v1::LoadRequest& message = call.request();
    env_.loader->Load(message.file(), {message.tensor().begin(), message.tensor().end()}, message.device(),
                      call.session(), call.control(), [&call](auto loaded) {
                        if (!loaded.ok()) return call.Reply(loaded.status());
                        for (LoadedTensor& tensor : *loaded) {
                          v1::LoadedTensor* row = call.response().add_tensors();
                          row->set_name(tensor.name);
                          FillDescription(tensor.buffer.handle, *tensor.buffer.record, *row->mutable_buffer());
                        }
                        call.Reply(absl::OkStatus());
                      });
  });
}

grpc::ServerUnaryReactor* BufferServiceImpl::MapSharedMemory(grpc::CallbackServerContext* context,
                                                             const grpc::ByteBuffer* request,
                                                             grpc::ByteBuffer* response) {
  return Serve<v1::MapSharedMemoryRequest, v1::MapSharedMemoryResponse>(
      env_, context, request, response, [this](auto& call) {
        if (env_.shared_memory == nullptr) return call.Reply(NotImplemented("BufferService.MapSharedMemory"));
        const auto handle = env_.shared_memory->regions().Reserve(call.request().bytes(), call.session());
        if (!handle.ok()) return call.Reply(handle.status());
        call.response().set_handle(*handle);
        call.response().set_socket(env_.shared_memory->path());
        call.Reply(absl::OkStatus());
      });
}

}  // namespace kiln::server
