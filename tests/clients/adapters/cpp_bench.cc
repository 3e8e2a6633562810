#include "tests/clients/adapters/cpp_bench.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"

namespace kiln::adapter {
namespace {

using client::Arguments;
using client::HostTensor;

constexpr size_t kChunk = 1 << 20;

absl::Status Plain(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

// gRPC's stubs, as they are generated, on a channel of their own.
struct Measures::Bare {
  absl::Status Execute(const Measures& of) {
    v1::ExecuteRequest request;
    request.set_graph_hash(of.program_->hash());
    request.set_result_mode(v1::RESULT_INLINE);
    v1::Tensor& tensor = *request.add_arguments()->mutable_tensor();
    tensor.set_dtype(v1::FLOAT32);
    tensor.add_shape(4);
    tensor.set_data(of.x_.bytes);
    grpc::ClientContext context;
    v1::ExecuteResponse response;
    return Plain(kernels->Execute(&context, request, &response));
  }

  absl::Status Submit(const Measures& of, int64_t count) {
    grpc::ClientContext context;
    const auto stream = kernels->Submit(&context);
    v1::SubmitRequest request;
    request.mutable_hello();
    bool open = stream->Write(request);
    for (int64_t number = 1; number <= count + 1 && open; ++number) {
      request.Clear();
      request.set_command_id(static_cast<uint64_t>(number));
      if (number <= count) {
        v1::ExecuteRequest& execute = *request.mutable_execute()->mutable_request();
        execute.set_graph_hash(of.step_->hash());
        execute.add_arguments()->mutable_buffer()->set_handle(counter);
      } else {
        request.mutable_fence();
      }
      open = stream->Write(request);
    }
    if (open) stream->WritesDone();
    v1::SubmitResponse response;
    absl::Status failed;
    while (stream->Read(&response)) {
      if (response.has_failed()) failed = absl::InternalError("a command failed");
    }
    const absl::Status ended = Plain(stream->Finish());
    return failed.ok() ? ended : failed;
  }

  absl::Status Upload(const std::string& data) {
    grpc::ClientContext context;
    v1::WriteResponse response;
    const auto stream = buffers->Write(&context, &response);
    v1::WriteRequest request;
    request.mutable_header()->mutable_buffer()->set_handle(block);
    request.mutable_header()->set_bytes(data.size());
    bool open = stream->Write(request);
    for (size_t at = 0; at < data.size() && open; at += kChunk) {
      request.set_chunk(data.substr(at, kChunk));
      open = stream->Write(request);
    }
    stream->WritesDone();
    return Plain(stream->Finish());
  }

  absl::Status Download(size_t bytes) {
    grpc::ClientContext context;
    v1::ReadRequest request;
    request.mutable_buffer()->set_handle(block);
    const auto stream = buffers->Read(&context, request);
    std::string made;
    made.reserve(bytes);
    v1::ReadResponse response;
    while (stream->Read(&response)) made += response.chunk();
    return Plain(stream->Finish());
  }

  absl::StatusOr<uint64_t> Allocate(const v1::AllocateRequest& request) {
    grpc::ClientContext context;
    v1::AllocateResponse response;
    KILN_RETURN_IF_ERROR(Plain(buffers->Allocate(&context, request, &response)));
    return response.buffer().handle();
  }

  std::unique_ptr<v1::KernelService::Stub> kernels;
  std::unique_ptr<v1::BufferService::Stub> buffers;
  uint64_t counter = 0, block = 0;
};

Measures::Measures() = default;

Measures::~Measures() {
  block_ = client::DeviceBuffer();
  stream_.reset();
}

absl::StatusOr<std::unique_ptr<Measures>> Measures::Prepare(const std::string& address, uint64_t bytes, Graphs graphs) {
  std::unique_ptr<Measures> made(new Measures());
  made->data_.resize(bytes);
  for (size_t at = 0; at < bytes; ++at) made->data_[at] = static_cast<char>(at % 251);
  made->x_ = HostTensor::Of<float>({4}, {0, 1, 2, 3});
  KILN_RETURN_IF_ERROR(made->Connect(address, std::move(graphs)));
  KILN_RETURN_IF_ERROR(made->ConnectBare(address));
  return made;
}

absl::Status Measures::Connect(const std::string& address, Graphs graphs) {
  client::ClientOptions options;
  options.shared_memory = false;
  options.lease = absl::Seconds(30);
  KILN_ASSIGN_OR_RETURN(client_, client::Client::Connect(address, std::move(options)));
  KILN_ASSIGN_OR_RETURN(stream_, client_->OpenStream());
  KILN_ASSIGN_OR_RETURN(program_, client_->Compile(std::move(graphs.affine)));
  KILN_ASSIGN_OR_RETURN(step_, client_->Compile(std::move(graphs.counting)));
  counter_ = stream_->Upload(HostTensor::Of<int32_t>({4}, {0, 0, 0, 0}));
  KILN_ASSIGN_OR_RETURN(block_, client_->Allocate(data_.size()));
  large_ = std::move(graphs.large);
  return client_->Write(block_, data_);
}

absl::Status Measures::ConnectBare(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  bare_ = std::make_unique<Bare>();
  bare_->kernels = v1::KernelService::NewStub(channel);
  bare_->buffers = v1::BufferService::NewStub(channel);
  v1::AllocateRequest counter, block;
  counter.mutable_type()->set_dtype(v1::INT32);
  counter.mutable_type()->add_shape(4);
  block.set_bytes(data_.size());
  KILN_ASSIGN_OR_RETURN(bare_->counter, bare_->Allocate(counter));
  KILN_ASSIGN_OR_RETURN(bare_->block, bare_->Allocate(block));
  return absl::OkStatus();
}

absl::StatusOr<double> Measures::Seconds(const std::string& what, bool bare, int64_t count) {
  const absl::Time begun = SteadyNow();
  KILN_RETURN_IF_ERROR(Many(what, bare, count));
  return absl::ToDoubleSeconds(SteadyNow() - begun);
}

absl::Status Measures::Many(const std::string& what, bool bare, int64_t count) {
  if (what == "submit") return bare ? bare_->Submit(*this, count) : Submit(count);
  for (int64_t number = 0; number < count; ++number) {
    absl::Status status;
    if (bare && what == "execute") {
      status = bare_->Execute(*this);
    } else if (bare && what == "upload") {
      status = bare_->Upload(data_);
    } else if (bare && what == "download") {
      status = bare_->Download(data_.size());
    } else if (!bare) {
      status = Once(what);
    } else {
      status = absl::InvalidArgumentError(absl::StrCat("gRPC alone has no ", what));
    }
    KILN_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status Measures::Once(const std::string& what) {
  if (what == "execute") return program_->Run(Arguments().Set(0, x_), {.results = v1::RESULT_INLINE}).status();
  if (what == "upload") return client_->Write(block_, data_);
  if (what == "download") return client_->Read(block_).status();
  if (what == "hash") return HashGraph(large_).status();
  return absl::InvalidArgumentError(absl::StrCat("there is no ", what));
}

absl::Status Measures::Submit(int64_t count) {
  for (int64_t number = 0; number < count; ++number) stream_->Execute(*step_, Arguments().Set(0, counter_));
  return stream_->Fence().get();
}

}  // namespace kiln::adapter
