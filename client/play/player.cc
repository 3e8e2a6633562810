#include "client/play/player.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kiln/v1/buffer_service.pb.h"
#include "kiln/v1/session_service.pb.h"

namespace kiln::play {
namespace {

using google::protobuf::Message;

// As long as servers may be asked for: nobody renews a lease here.
constexpr uint32_t kLeaseSeconds = 3600;

absl::Status Senseless(uint64_t call, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the capture makes no sense at call ", call, ": ", what));
}

uint64_t NumberOf(const std::string& bytes) {
  uint64_t number = 0;
  if (bytes.size() == sizeof number) std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

// What depends on the clock, on other clients or on the machine.
bool IsOfItsTime(int status) {
  return status == grpc::StatusCode::CANCELLED || status == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status == grpc::StatusCode::UNAVAILABLE || status == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

}  // namespace

Player::~Player() {
  for (auto& [number, call] : calls_) Complete(call);
}

absl::Status Player::Play(const v1::CaptureEntry& entry) {
  if (entry.has_begin()) return Begin(entry.begin());
  const uint64_t number = entry.has_received() ? entry.received().call()
                          : entry.has_sent()   ? entry.sent().call()
                                               : entry.end().call();
  const auto found = calls_.find(number);
  if (found == calls_.end()) return Senseless(number, "it has not begun, or has ended");
  Call& call = found->second;
  switch (entry.what_case()) {
    case v1::CaptureEntry::kReceived: return Received(call, entry.received().message());
    case v1::CaptureEntry::kSent: return Sent(call, entry.sent().message());
    case v1::CaptureEntry::kEnd: {
      const absl::Status status = End(call, entry.end());
      calls_.erase(found);
      return status;
    }
    default: return Senseless(number, "an entry of an unknown kind");
  }
}

bool Player::IsStream(const Call& call) const {
  return call.method->request->GetDescriptor() == v1::SubmitRequest::descriptor();
}
bool Player::IsUpload(const Call& call) const {
  return call.method->request->GetDescriptor() == v1::WriteRequest::descriptor();
}

absl::Status Player::Begin(const v1::CaptureBegin& begin) {
  Call call;
  call.number = begin.call();
  call.method = FindMethod(begin.method());
  call.session = begin.session();
  if (call.method == nullptr) return Senseless(begin.call(), absl::StrCat("there is no method ", begin.method()));
  if (!calls_.emplace(begin.call(), std::move(call)).second) return Senseless(begin.call(), "it begins twice");
  ++report_.calls;
  return absl::OkStatus();
}

std::string Player::TokenOf(uint64_t session) const {
  if (session == capture::kNoSuchSession) return std::string(16, '\0');
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? "" : found->second.token;
}

void Player::Open(Call& call) {
  call.context = std::make_unique<grpc::ClientContext>();
  const std::string bearer = bearer_ == nullptr ? "" : bearer_->Value();
  if (!bearer.empty()) call.context->AddMetadata("authorization", bearer);
  const std::string token = TokenOf(call.session);
  if (!token.empty()) call.context->AddMetadata("kiln-session-bin", token);
  call.raw = std::make_unique<client::RawCall>(stub_, *call.context, call.method->path().c_str());
}

void Player::Complete(Call& call) {
  if (call.raw == nullptr) return;
  call.raw->WritesDone();
  grpc::ByteBuffer answer;
  while (call.raw->Read(answer)) {
    if (!IsStream(call)) call.answers.push_back(BytesOf(answer));
  }
  call.status = call.raw->Finish();
  call.raw.reset();
  call.context.reset();
}

absl::Status Player::Received(Call& call, const std::string& bytes) {
  if (IsStream(call)) return CommandReceived(call, bytes);
  const std::unique_ptr<Message> request(call.method->request->New());
  if (!request->ParseFromString(bytes)) return Senseless(call.number, "a request that is no message of its type");
  if (absl::Status status = Prepare(call, *request); !status.ok()) return status;
  if (call.raw == nullptr) Open(call);
  call.raw->Write(BufferOf(request->SerializeAsString()));  // if that fails, the end says why
  if (!IsUpload(call)) Complete(call);
  return absl::OkStatus();
}

absl::Status Player::Prepare(Call& call, Message& request) {
  const google::protobuf::Descriptor* const type = request.GetDescriptor();
  if (type == v1::OpenSessionRequest::descriptor()) {
    auto& open = static_cast<v1::OpenSessionRequest&>(request);
    open.set_lease_seconds(kLeaseSeconds);
    open.set_resume_token(TokenOf(NumberOf(open.resume_token())));
  } else if (type == v1::CloseSessionRequest::descriptor()) {
    auto& close = static_cast<v1::CloseSessionRequest&>(request);
    close.set_token(TokenOf(NumberOf(close.token())));
  } else if (type == v1::ExecuteRequest::descriptor()) {
    auto& execute = static_cast<v1::ExecuteRequest&>(request);
    execute.set_want_timing(true);
    call.program = ProgramOf(execute);
    NoteExecuted(execute, call.program, {});
  } else if (type == v1::ReplaySequenceRequest::descriptor()) {
    auto& replay = static_cast<v1::ReplaySequenceRequest&>(request);
    replay.set_want_timing(true);
  } else if (type == v1::CopyRequest::descriptor()) {
    const auto& copy = static_cast<const v1::CopyRequest&>(request);
    handles_.NoteCopy(copy.from().handle(), copy.to().handle());
  } else if (type == v1::ReadRequest::descriptor()) {
    const Handles::Content& content = handles_.content(static_cast<const v1::ReadRequest&>(request).buffer().handle());
    call.program = content.program;
    if (static_cast<const v1::ReadRequest&>(request).buffer().offset() == 0) call.dtype = content.dtype;
  }
  handles_.Translate(request);
  return absl::OkStatus();
}

absl::Status Player::Sent(Call& call, const std::string& bytes) {
  if (IsStream(call)) return CommandSent(call, bytes);
  Complete(call);
  const std::unique_ptr<Message> captured(call.method->response->New()), played(call.method->response->New());
  if (!captured->ParseFromString(bytes)) return Senseless(call.number, "an answer that is no message of its type");
  if (call.answers.empty()) return absl::OkStatus();  // its end says what came instead
  if (!played->ParseFromString(call.answers.front())) return absl::InternalError("an answer that is no message");
  call.answers.pop_front();
  if (captured->GetDescriptor() == v1::OpenSessionResponse::descriptor()) {
    sessions_[NumberOf(static_cast<const v1::OpenSessionResponse&>(*captured).token())].token =
        static_cast<const v1::OpenSessionResponse&>(*played).token();
    return absl::OkStatus();
  }
  if (captured->GetDescriptor() == v1::CompileResponse::descriptor()) {
    NoteCompiled(static_cast<const v1::CompileResponse&>(*played));
  }
  if (played->GetDescriptor() == v1::ExecuteResponse::descriptor()) {
    NoteTime(call.program, static_cast<const v1::ExecuteResponse&>(*played).timing());
  }
  handles_.Learn(*captured, *played);
  NoteAnswer(call, *captured);
  CompareAnswer(call, *captured, *played);
  return absl::OkStatus();
}

void Player::CompareAnswer(Call& call, const Message& captured, const Message& played) {
  absl::optional<Mismatch> mismatch;
  uint64_t bytes = captured.ByteSizeLong();
  if (captured.GetDescriptor() == v1::ReadResponse::descriptor()) {
    const std::string& one = static_cast<const v1::ReadResponse&>(captured).chunk();
    const std::string& two = static_cast<const v1::ReadResponse&>(played).chunk();
    mismatch = CompareData(one, two, call.dtype, call.compared_bytes);
    bytes = one.size();
    call.compared_bytes += bytes;
  } else {
    mismatch = CompareAnswers(captured, played);
  }
  if (mismatch.has_value()) return Differ(call, 0, call.program, *std::move(mismatch));
  ++report_.equal;
  report_.equal_bytes += bytes;
}

absl::Status Player::End(Call& call, const v1::CaptureEnd& end) {
  Complete(call);
  if (call.status.error_code() == grpc::StatusCode::UNAVAILABLE && call.status.error_details().empty()) {
    return absl::UnavailableError(absl::StrCat("the server is gone: ", call.status.error_message()));
  }
  if (IsOfItsTime(end.status()) || (IsStream(call) && end.status() != 0)) {
    ++report_.passed_over;
  } else if (end.status() != 0 && !call.status.ok()) {
    CompareFailures(call, 0, end.details(), call.status.error_details());
  } else if (end.status() != 0) {
    Differ(call, 0, call.program, {"", absl::StrCat("it failed with status ", end.status()), "it was answered"});
  } else if (!call.status.ok()) {
    Differ(call, 0, call.program, {"", "it was answered", absl::StrCat("it failed: ", call.status.error_message())});
  }
  return absl::OkStatus();
}

absl::StatusOr<Report> Play(capture::Reader& reader, const std::shared_ptr<grpc::Channel>& channel,
                            client::BearerSource* bearer) {
  Player player(channel, bearer);
  v1::CaptureEntry entry;
  while (reader.Next(entry)) {
    if (absl::Status status = player.Play(entry); !status.ok()) return status;
  }
  return player.report();
}

}  // namespace kiln::play
