#include "client/cpp/stream.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "client/cpp/transport/stubs.h"

namespace kiln::client {
namespace {

// As much as makes no other command wait long.
constexpr size_t kPieceBytes = 256 << 10;

// A server that had a program a moment ago has it still; for one that was not used for
// longer, the graph goes along.
constexpr absl::Duration kKnown = absl::Seconds(10);

// From anywhere on, so that another session's handle is none of ours.
uint64_t FirstName() {
  std::random_device random;
  return (uint64_t{1} << 62) + ((uint64_t{random()} << 29) ^ random());
}

// A future, and what makes it ready from an answer.
template <typename T, typename Take>
std::future<T> Promise(StreamLink::Answered& answered, Take take) {
  auto promise = std::make_shared<std::promise<T>>();
  answered = [promise, take](absl::StatusOr<v1::SubmitResponse> answer) {
    answer.ok() ? promise->set_value(take(*answer)) : promise->set_value(answer.status());
  };
  return promise->get_future();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> Stream::Open(std::shared_ptr<Connection> connection,
                                                     const StreamOptions& options) {
  StreamLink::Limits limits = {options.max_commands, options.max_bytes, absl::ZeroDuration()};
  if (Session* session = connection->session(); session != nullptr) {
    KILN_ASSIGN_OR_RETURN(Session::Commands commands, session->TakeCommands());
    limits.timeout = session->lease();
    return std::unique_ptr<Stream>(new Stream(std::move(connection), std::move(commands), false, limits));
  }
  v1::OpenSessionRequest request;
  request.set_lease_seconds(options.lease_seconds);
  v1::OpenSessionResponse opened;
  KILN_RETURN_IF_ERROR(
      Call(*connection, connection->stubs().sessions, &v1::SessionService::Stub::Open, "Open", request, &opened));
  limits.timeout = absl::Seconds(opened.lease_seconds());
  Session::Commands commands = {opened.token(), 0, absl::OkStatus()};
  return std::unique_ptr<Stream>(new Stream(std::move(connection), std::move(commands), true, limits));
}

Stream::Stream(std::shared_ptr<Connection> connection, Session::Commands commands, bool own_session,
               const StreamLink::Limits& limits)
    : connection_(std::move(connection)),
      token_(commands.token),
      own_session_(own_session),
      next_name_(FirstName()),
      link_(std::make_unique<StreamLink>(connection_, std::move(commands), limits)) {}

Stream::~Stream() {
  link_->Close();
  if (!own_session_) {
    connection_->session()->GiveCommands(link_->Leave());
    return;
  }
  v1::CloseSessionRequest request;
  request.set_token(token_);
  v1::CloseSessionResponse response;
  // If it fails, the lease ends the session.
  Call(*connection_, connection_->stubs().sessions, &v1::SessionService::Stub::Close, "Close", request, &response)
      .IgnoreError();
}

v1::BufferRef Stream::Name() {
  v1::BufferRef ref;
  ref.set_handle(next_name_.fetch_add(1, std::memory_order_relaxed));
  return ref;
}

v1::BufferRef Stream::Allocate(uint64_t bytes) {
  const v1::BufferRef made = Name();
  v1::SubmitRequest request;
  request.mutable_allocate()->set_handle(made.handle());
  request.mutable_allocate()->set_device(connection_->options().device);
  request.mutable_allocate()->set_bytes(bytes);
  link_->Send(std::move(request));
  return made;
}

v1::BufferRef Stream::Allocate(v1::DType dtype, const Shape& shape) {
  const v1::BufferRef made = Name();
  v1::SubmitRequest request;
  v1::AllocateCommand& allocate = *request.mutable_allocate();
  allocate.set_handle(made.handle());
  allocate.set_device(connection_->options().device);
  allocate.mutable_type()->set_dtype(dtype);
  allocate.mutable_type()->mutable_shape()->Assign(shape.begin(), shape.end());
  link_->Send(std::move(request));
  return made;
}

v1::BufferRef Stream::Upload(const HostTensor& tensor) {
  const v1::BufferRef made = Allocate(tensor.dtype, tensor.shape);
  Write(made, tensor.bytes);
  return made;
}

void Stream::Write(const v1::BufferRef& to, absl::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    v1::SubmitRequest request;
    v1::WriteCommand& write = *request.mutable_write();
    write.mutable_buffer()->set_handle(to.handle());
    write.mutable_buffer()->set_offset(to.offset() + at);
    const absl::string_view piece = bytes.substr(at, kPieceBytes);
    write.set_data(piece.data(), piece.size());
    link_->Send(std::move(request));
  }
}

void Stream::Fill(const v1::BufferRef& to, absl::string_view pattern, uint64_t bytes) {
  v1::SubmitRequest request;
  *request.mutable_fill()->mutable_buffer() = to;
  request.mutable_fill()->set_pattern(pattern.data(), pattern.size());
  request.mutable_fill()->set_bytes(bytes);
  link_->Send(std::move(request));
}

void Stream::Copy(const v1::BufferRef& from, const v1::BufferRef& to, uint64_t bytes) {
  v1::SubmitRequest request;
  *request.mutable_copy()->mutable_from() = from;
  *request.mutable_copy()->mutable_to() = to;
  request.mutable_copy()->set_bytes(bytes);
  link_->Send(std::move(request));
}

v1::BufferRef Stream::View(const v1::BufferRef& of, v1::DType dtype, const Shape& shape) {
  const v1::BufferRef made = Name();
  v1::SubmitRequest request;
  v1::ViewCommand& view = *request.mutable_view();
  view.set_handle(made.handle());
  *view.mutable_of() = of;
  view.set_dtype(dtype);
  view.mutable_shape()->Assign(shape.begin(), shape.end());
  view.set_bytes(ByteCount(dtype, shape).value_or(0));
  link_->Send(std::move(request));
  return made;
}

std::future<absl::StatusOr<std::string>> Stream::Read(const v1::BufferRef& from, uint64_t bytes) {
  StreamLink::Answered answered;
  auto future = Promise<absl::StatusOr<std::string>>(
      answered, [bytes](v1::SubmitResponse& answer) -> absl::StatusOr<std::string> {
        if (bytes == 0 || bytes == answer.data().size()) return std::move(*answer.mutable_data());
        return absl::InternalError(
            absl::StrCat("asked for ", bytes, " bytes of a buffer, and ", answer.data().size(), " came"));
      });
  v1::SubmitRequest request;
  *request.mutable_read()->mutable_buffer() = from;
  request.mutable_read()->set_bytes(bytes);
  link_->Send(std::move(request), std::move(answered));
  return future;
}

void Stream::Free(const std::vector<v1::BufferRef>& buffers) {
  v1::SubmitRequest request;
  for (const v1::BufferRef& buffer : buffers) request.mutable_free()->add_handle(buffer.handle());
  link_->Send(std::move(request));
}

std::future<absl::StatusOr<v1::CompileResponse>> Stream::Compile(v1::Graph graph, const v1::CompileOptions& options) {
  StreamLink::Answered answered;
  auto future = Promise<absl::StatusOr<v1::CompileResponse>>(
      answered, [](v1::SubmitResponse& answer) { return std::move(*answer.mutable_compiled()); });
  v1::SubmitRequest request;
  *request.mutable_compile()->mutable_graph() = std::move(graph);
  *request.mutable_compile()->mutable_options() = options;
  request.mutable_compile()->set_device(connection_->options().device);
  link_->Send(std::move(request), std::move(answered));
  return future;
}

std::vector<v1::BufferRef> Stream::Execute(const Program& program, const Arguments& arguments, const std::string& tag) {
  v1::SubmitRequest request;
  request.set_tag(tag);
  v1::ExecuteRequest& execute = *request.mutable_execute()->mutable_request();
  execute.set_graph_hash(program.hash());
  execute.set_device(connection_->options().device);
  *execute.mutable_options() = program.options();
  *execute.mutable_arguments() = arguments.list();
  {
    absl::MutexLock lock(&mutex_);
    absl::Time& known = known_[program.hash()];
    const absl::Time now = absl::Now();
    if (now > known) {
      *execute.mutable_graph() = program.graph();
      known = now + kKnown;
    }
  }
  std::vector<v1::BufferRef> results;
  const v1::CompileResponse& compiled = program.compiled();
  for (int i = 0; i < program.signature().results_size(); ++i) {
    const bool several = i < compiled.result_layouts_size() && compiled.result_layouts(i).device_size() > 1;
    for (int shares = several ? compiled.result_layouts(i).device_size() : 1; shares > 0; --shares) {
      results.push_back(program.signature().results(i).has_aliases() ? v1::BufferRef() : Name());
      request.mutable_execute()->add_result_handle(results.back().handle());
    }
  }
  link_->Send(std::move(request));
  return results;
}

void Stream::Collective(v1::CollectiveCommand::Kind kind, const v1::CollectiveRequest& request) {
  v1::SubmitRequest command;
  command.mutable_collective()->set_kind(kind);
  *command.mutable_collective()->mutable_request() = request;
  link_->Send(std::move(command));
}

std::future<absl::Status> Stream::Fence() {
  auto promise = std::make_shared<std::promise<absl::Status>>();
  v1::SubmitRequest request;
  request.mutable_fence();
  link_->Send(std::move(request), [link = link_.get(), promise](const absl::StatusOr<v1::SubmitResponse>& answer) {
    promise->set_value(answer.ok() ? link->TakeFailure() : answer.status());
  });
  return promise->get_future();
}

}  // namespace kiln::client
