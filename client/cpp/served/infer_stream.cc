#include "client/cpp/served/infer_stream.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "client/cpp/transport/stubs.h"
#include "inference/grpc_service.grpc.pb.h"

namespace kiln::client {

namespace {

constexpr char kMethod[] = "/inference.GRPCInferenceService/ModelStreamInfer";

// Answers are read as bytes: where gRPC itself cannot read a message, it says no more than that there is none, as at
// the stream's end, whose status would then be waited for while the server waits for requests.
using Stream = grpc::ClientReaderWriter<inference::ModelInferRequest, grpc::ByteBuffer>;
using Streams = grpc::internal::ClientReaderWriterFactory<inference::ModelInferRequest, grpc::ByteBuffer>;

}  // namespace

struct InferStream::Call {
  Call(const Connection& connection, absl::Time deadline)
      : channel(connection.channel()), method(kMethod, grpc::internal::RpcMethod::BIDI_STREAMING, channel) {
    connection.Prepare(context, deadline);
    stream.reset(Streams::Create(channel.get(), method, &context));
  }

  const std::shared_ptr<grpc::Channel> channel;
  const grpc::internal::RpcMethod method;
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream;
};

InferStream::InferStream(std::shared_ptr<Connection> connection, std::string model, std::string version,
                         absl::Duration timeout)
    : connection_(std::move(connection)),
      model_(std::move(model)),
      version_(std::move(version)),
      call_(std::make_unique<Call>(*connection_, absl::Now() + timeout)),
      reader_([this] { Read(); }) {}

InferStream::~InferStream() {
  Cancel();
  if (reader_.joinable()) reader_.join();
}

std::future<absl::StatusOr<NamedTensors>> InferStream::Infer(NamedTensors inputs, InferOptions options) {
  std::promise<Answer> promise;
  std::future<Answer> answer = promise.get_future();
  absl::MutexLock writing(&writing_);
  // What answers which is known by its id.
  if (options.id.empty()) options.id = absl::StrCat(++last_id_);
  absl::StatusOr<inference::ModelInferRequest> request = ToInferRequest(model_, version_, std::move(inputs), options);
  if (request.ok() && closed_) request = absl::FailedPreconditionError("the stream is closed; open another");
  if (!request.ok()) {
    promise.set_value(request.status());
    return answer;
  }
  const absl::Duration timeout = std::min(options.timeout, connection_->options().call_timeout);
  if (timeout != absl::InfiniteDuration()) {
    (*request->mutable_parameters())["timeout"].set_int64_param(
        std::max<int64_t>(1, absl::ToInt64Microseconds(timeout)));
  }
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) {
      promise.set_value(status_.ok() ? absl::FailedPreconditionError("the server has ended the stream") : status_);
      return answer;
    }
    due_.push_back({std::move(promise), std::move(options.outputs), std::move(options.id)});
  }
  connection_->Count("ModelStreamInfer", 1, request->ByteSizeLong(), 0);
  // Where that fails the call has ended: the thread that reads hears why, and tells it to all that are due.
  call_->stream->Write(*request);
  return answer;
}

absl::Status InferStream::Close() {
  {
    absl::MutexLock writing(&writing_);
    if (!closed_ && !ended()) call_->stream->WritesDone();
    closed_ = true;
  }
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&ended_));
  return status_;
}

bool InferStream::ended() {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

void InferStream::Cancel() { call_->context.TryCancel(); }

absl::Status InferStream::Take(grpc::ByteBuffer& bytes) {
  inference::ModelStreamInferResponse response;
  const bool can_be_read =
      grpc::SerializationTraits<inference::ModelStreamInferResponse>::Deserialize(&bytes, &response).ok();
  if (!can_be_read) response.Clear();
  const std::string& id = response.infer_response().id();
  const bool may_lack_id = !can_be_read || !response.error_message().empty();
  std::optional<Due> due;
  {
    absl::MutexLock lock(&mutex_);
    if (due_.empty() || (id != due_.front().id && !(id.empty() && may_lack_id))) {
      if (!id.empty() && id == before_) return absl::OkStatus();  // it comes a second time
      return MakeError(v1::INTERNAL_FAULT, absl::StrCat("the server answered request \"", absl::CHexEscape(id),
                                                        "\", whose turn it is not"));
    }
    due = std::move(due_.front());
    due_.pop_front();
  }
  before_ = due->id;
  due->promise.set_value(can_be_read ? FromStreamResponse(response, due->outputs, due->id)
                                     : MakeError(v1::INTERNAL_FAULT, "the server gave an answer that cannot be read"));
  return absl::OkStatus();
}

void InferStream::Read() {
  grpc::ByteBuffer bytes;
  absl::Status lie;
  while (lie.ok() && call_->stream->Read(&bytes)) {
    connection_->Count("ModelStreamInfer", 0, 0, bytes.Length());
    lie = Take(bytes);
  }
  if (!lie.ok()) {
    call_->context.TryCancel();
    while (call_->stream->Read(&bytes)) continue;  // gRPC wants all read before the end
  }
  absl::MutexLock writing(&writing_);  // gRPC wants nothing written beside the end, nor behind it
  const absl::Status ended = connection_->Convert(call_->stream->Finish());
  End(lie.ok() ? ended : lie);
}

void InferStream::End(absl::Status why) {
  std::deque<Due> left;
  {
    absl::MutexLock lock(&mutex_);
    left.swap(due_);
    if (why.ok() && !left.empty()) {
      why = MakeError(v1::INTERNAL_FAULT, "the server ended the stream before it had answered");
    }
    status_ = why;
    ended_ = true;
  }
  for (Due& due : left) due.promise.set_value(why);
}

}  // namespace kiln::client
