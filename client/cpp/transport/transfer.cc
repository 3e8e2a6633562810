#include "client/cpp/transport/transfer.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/error.h"
#include "client/cpp/transport/raw_call.h"
#include "client/cpp/transport/stubs.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "kiln/v1/buffer_service.pb.h"

namespace kiln::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

constexpr uint64_t kChunkBytes = 1 << 20;
constexpr uint32_t kWriteChunkTag =
    WireFormatLite::MakeTag(v1::WriteRequest::kChunkFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kReadChunkTag =
    WireFormatLite::MakeTag(v1::ReadResponse::kChunkFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

// The caller's memory as slices that gRPC may hold longer than the call that sends them:
// until a connection that has died without a word is given up. So where the call has a
// deadline, slices are copies.
class Lender {
 public:
  explicit Lender(bool copies) : copies_(copies) {}
  // Waits until all that was lent is back.
  ~Lender() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(+[](int* lent) { return *lent == 0; }, &lent_));
  }

  grpc::Slice Lend(absl::string_view bytes) {
    if (copies_) return grpc::Slice(bytes.data(), bytes.size());
    {
      absl::MutexLock lock(&mutex_);
      ++lent_;
    }
    return grpc::Slice(const_cast<char*>(bytes.data()), bytes.size(), &Lender::Back, this);
  }

 private:
  static void Back(void* lender) {
    auto* self = static_cast<Lender*>(lender);
    absl::MutexLock lock(&self->mutex_);
    --self->lent_;
  }

  const bool copies_;
  absl::Mutex mutex_;
  int lent_ ABSL_GUARDED_BY(mutex_) = 0;
};

grpc::ByteBuffer BytesOf(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// A WriteRequest with a chunk.
grpc::ByteBuffer Chunk(Lender& lender, absl::string_view bytes) {
  uint8_t head[16];
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(kWriteChunkTag, head);
  end = CodedOutputStream::WriteVarint64ToArray(bytes.size(), end);
  const grpc::Slice slices[] = {grpc::Slice(head, static_cast<size_t>(end - head)), lender.Lend(bytes)};
  return grpc::ByteBuffer(slices, 2);
}

// Puts the chunk of a ReadResponse where `room` says, and takes it from what is left of a download. False if it is
// none, or longer.
bool TakeChunk(grpc::ByteBuffer& message, uint64_t& left, absl::FunctionRef<char*(size_t)> room) {
  grpc::ProtoBufferReader reader(&message);
  CodedInputStream input(&reader);
  uint32_t size = 0;
  if (!reader.status().ok() || input.ReadTag() != kReadChunkTag || !input.ReadVarint32(&size)) return false;
  if (size > left || size > message.Length() || !input.ReadRaw(room(size), static_cast<int>(size))) return false;
  left -= size;
  return input.ReadTag() == 0 && input.ConsumedEntireMessage();
}

}  // namespace

absl::Status Upload(Connection& connection, const v1::BufferRef& to, absl::string_view bytes) {
  Lender lender(connection.options().call_timeout != absl::InfiniteDuration());
  grpc::ClientContext context;
  connection.Prepare(context);
  v1::WriteRequest header;
  *header.mutable_header()->mutable_buffer() = to;
  header.mutable_header()->set_bytes(bytes.size());
  RawCall call(*connection.stubs().raw, context, "/kiln.v1.BufferService/Write");
  grpc::ByteBuffer message = BytesOf(header);
  uint64_t sent = message.Length();
  // A write that fails has its reason in Finish.
  bool open = call.Write(message);
  while (open && !bytes.empty()) {
    const absl::string_view chunk = bytes.substr(0, kChunkBytes);
    message = Chunk(lender, chunk);
    sent += message.Length();
    open = call.Write(message);
    bytes.remove_prefix(chunk.size());
  }
  message.Clear();
  if (open) call.WritesDone();
  grpc::ByteBuffer answer;
  const uint64_t received = call.Read(answer) ? answer.Length() : 0;
  const grpc::Status status = call.Finish();
  connection.Count("Write", 1, sent, received);
  return connection.Convert(status);
}

absl::Status Download(Connection& connection, const v1::BufferRef& from, absl::Span<char> to) {
  return Download(connection, from, to.size(), [&to](size_t size) {
    char* target = to.data();
    to.remove_prefix(size);
    return target;
  });
}

absl::Status Download(Connection& connection, const v1::BufferRef& from, uint64_t bytes,
                      absl::FunctionRef<char*(size_t size)> room) {
  grpc::ClientContext context;
  connection.Prepare(context);
  v1::ReadRequest request;
  *request.mutable_buffer() = from;
  request.set_bytes(bytes);
  RawCall call(*connection.stubs().raw, context, "/kiln.v1.BufferService/Read");
  const grpc::ByteBuffer message = BytesOf(request);
  if (call.Write(message)) call.WritesDone();
  uint64_t left = bytes;
  uint64_t received = 0;
  bool good = true;
  grpc::ByteBuffer answer;
  while (good && call.Read(answer)) {
    received += answer.Length();
    good = TakeChunk(answer, left, room);
  }
  if (!good) context.TryCancel();
  const grpc::Status status = call.Finish();
  connection.Count("Read", 1, message.Length(), received);
  if (good) KILN_RETURN_IF_ERROR(connection.Convert(status));
  if (good && left == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("asked for ", bytes, " bytes of a buffer; what came is no such answer: is it a Kiln server?"));
}

}  // namespace kiln::client
