#include "server/services/transfer.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "server/services/call.h"
#include "server/services/convert.h"

namespace kiln::server {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr uint32_t kHeaderTag =
    WireFormatLite::MakeTag(v1::WriteRequest::kHeaderFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kChunkTag =
    WireFormatLite::MakeTag(v1::WriteRequest::kChunkFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kReadChunkTag =
    WireFormatLite::MakeTag(v1::ReadResponse::kChunkFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

absl::Status Malformed(absl::string_view message) { return MakeError(v1::MALFORMED_MESSAGE, message); }

// A message's bytes and the reader that walks them, for as long as pieces of it
// are in use.
struct Bytes {
  explicit Bytes(const grpc::ByteBuffer& message) : buffer(message), reader(&buffer) {}
  grpc::ByteBuffer buffer;
  grpc::ProtoBufferReader reader;
};

// Notes where the next `length` bytes lie.
bool TakePieces(google::protobuf::io::CodedInputStream& input, uint32_t length, WritePart& part) {
  part.size += length;
  while (length > 0) {
    const void* data = nullptr;
    int size = 0;
    if (!input.GetDirectBufferPointer(&data, &size)) return false;
    const uint32_t taken = std::min(length, static_cast<uint32_t>(size));
    part.pieces.emplace_back(static_cast<const char*>(data), taken);
    if (!input.Skip(static_cast<int>(taken))) return false;
    length -= taken;
  }
  return true;
}

bool ReadHeader(google::protobuf::io::CodedInputStream& input, uint32_t length, WritePart& part) {
  std::string text;
  // No header is long; a length that says otherwise must not reserve memory.
  if (length > 4096 || !input.ReadString(&text, static_cast<int>(length))) return false;
  return part.header.emplace().ParseFromString(text);
}

// One BufferService.Write. All callbacks of the stream come one after another;
// between a chunk's arrival and its write's end, no read is under way.
class Upload final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  Upload(const ServiceEnv& env, const grpc::CallbackServerContext& context, grpc::ByteBuffer* response)
      : env_(env), entered_(env.gate.Enter()), response_(response) {
    if (absl::Status status = Enter(context); status.ok()) {
      StartRead(&message_);
    } else {
      FinishWith(*this, env_, status);
    }
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return FinishWith(*this, env_, AtEnd());
    auto part = ParseWritePart(message_);
    absl::Status status = part.status();
    if (status.ok()) status = part->header.has_value() ? Open(*part->header) : CheckChunk(*part);
    if (!status.ok()) return FinishWith(*this, env_, status);
    if (part->size == 0) return StartRead(&message_);
    WriteChunk(*std::move(part));
  }

  void OnDone() override {
    if (entered_) env_.gate.Leave();
    delete this;
  }

  absl::Status Enter(const grpc::CallbackServerContext& context) {
    if (!entered_) return ShuttingDown();
    KILN_ASSIGN_OR_RETURN(caller_, SessionOf(env_, context));
    return absl::OkStatus();
  }

  absl::Status Open(const v1::WriteHeader& header) {
    if (open_) return Malformed("a second header in one upload");
    KILN_ASSIGN_OR_RETURN(target_,
                          env_.engine.buffers().Resolve(ToAddress(header.buffer()), header.bytes(), caller_.get()));
    handle_ = header.buffer().handle();
    open_ = true;
    return absl::OkStatus();
  }

  absl::Status SizeError(v1::ErrorCode code, uint64_t got) const {
    v1::ErrorDetail detail;
    detail.set_code(code);
    detail.set_handle(handle_);
    detail.set_limit("bytes");
    detail.set_limit_value(target_.slice.bytes);
    detail.set_used(got);
    return MakeError(detail, absl::StrCat("the header promised ", target_.slice.bytes, " bytes; ", got, " came"));
  }

  absl::Status CheckChunk(const WritePart& part) const {
    if (!open_) return Malformed("an upload begins with a header");
    if (part.size > target_.slice.bytes - written_) return SizeError(v1::TOO_MUCH_DATA, written_ + part.size);
    return absl::OkStatus();
  }

  // The client has sent all it will.
  absl::Status AtEnd() {
    if (!open_) return Malformed("an upload begins with a header; this one had no message");
    if (written_ < target_.slice.bytes) return SizeError(v1::TRUNCATED_UPLOAD, written_);
    v1::WriteResponse response;
    response.set_bytes(written_);
    return Encode(response, *response_);
  }

  void WriteChunk(WritePart part) {
    bytes_ = std::move(part.bytes);
    const runtime::hal::BufferSlice to{target_.slice.buffer, target_.slice.offset + written_, part.size};
    written_ += part.size;
    target_.device->queue().WritePieces(std::move(part.pieces), to, [this](const absl::Status& status) {
      bytes_.reset();
      if (!status.ok()) return FinishWith(*this, env_, status);
      StartRead(&message_);
    });
  }

  const ServiceEnv env_;
  const bool entered_;
  grpc::ByteBuffer* const response_;
  grpc::ByteBuffer message_;
  SessionPtr caller_;
  bool open_ = false;
  uint64_t handle_ = 0;
  Buffers::Range target_;
  uint64_t written_ = 0;

  std::shared_ptr<void> bytes_;  // the chunk under way
};

// One BufferService.Read.
class Download final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  Download(const ServiceEnv& env, const grpc::CallbackServerContext& context, const grpc::ByteBuffer& request)
      : env_(env), entered_(env.gate.Enter()) {
    if (absl::Status status = Open(context, request); !status.ok()) {
      FinishWith(*this, env_, status);
    } else {
      Next();
    }
  }

 private:
  absl::Status Open(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& bytes) {
    if (!entered_) return ShuttingDown();
    KILN_ASSIGN_OR_RETURN(const SessionPtr caller, SessionOf(env_, context));
    v1::ReadRequest request;
    KILN_RETURN_IF_ERROR(Decode(bytes, LimitsOf(env_), request));
    const auto size = request.bytes() == 0 ? absl::optional<uint64_t>() : request.bytes();
    KILN_ASSIGN_OR_RETURN(source_, env_.engine.buffers().Resolve(ToAddress(request.buffer()), size, caller.get()));
    return absl::OkStatus();
  }

  // Lets the device write the next chunk into the very bytes that will travel.
  void Next() {
    const uint64_t left = source_.slice.bytes - sent_;
    if (left == 0) return Finish(grpc::Status::OK);
    const uint64_t size = std::min(left, kChunkBytes);
    uint8_t head[16];
    uint8_t* end = google::protobuf::io::CodedOutputStream::WriteVarint32ToArray(kReadChunkTag, head);
    end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(size, end);
    const size_t head_size = end - head;
    chunk_ = grpc::Slice(head_size + size);
    auto* data = const_cast<uint8_t*>(chunk_.begin());
    std::memcpy(data, head, head_size);
    const runtime::hal::BufferSlice from{source_.slice.buffer, source_.slice.offset + sent_, size};
    sent_ += size;
    source_.device->queue().Read(from, data + head_size, [this](absl::Status status) { Send(status); });
  }

  void Send(const absl::Status& status) {
    if (!status.ok()) return FinishWith(*this, env_, status);
    message_ = grpc::ByteBuffer(&chunk_, 1);
    StartWrite(&message_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    Next();
  }

  void OnDone() override {
    if (entered_) env_.gate.Leave();
    delete this;
  }

  const ServiceEnv env_;
  const bool entered_;
  Buffers::Range source_;
  uint64_t sent_ = 0;
  grpc::Slice chunk_;
  grpc::ByteBuffer message_;
};

}  // namespace

absl::StatusOr<WritePart> ParseWritePart(const grpc::ByteBuffer& message) {
  auto bytes = std::make_shared<Bytes>(message);
  if (!bytes->reader.status().ok()) return Malformed("the message cannot be read");
  WritePart part;
  int parts = 0;
  {
    google::protobuf::io::CodedInputStream input(&bytes->reader);
    while (const uint32_t tag = input.ReadTag()) {
      uint32_t length = 0;
      bool good;
      if ((tag == kHeaderTag || tag == kChunkTag) && ++parts > 1) {
        return Malformed("a WriteRequest has one header or one chunk; this one has several");
      }
      if (tag == kHeaderTag) {
        good = input.ReadVarint32(&length) && ReadHeader(input, length, part);
      } else if (tag == kChunkTag) {
        good = input.ReadVarint32(&length) && TakePieces(input, length, part);
      } else {
        good = WireFormatLite::SkipField(&input, tag);
      }
      if (!good) return Malformed("the request is no kiln.v1.WriteRequest");
    }
    if (!input.ConsumedEntireMessage()) return Malformed("the request is no kiln.v1.WriteRequest");
  }
  if (parts == 0) return Malformed("a WriteRequest has a header or a chunk");
  part.bytes = std::move(bytes);
  return part;
}

grpc::ServerReadReactor<grpc::ByteBuffer>* StartUpload(const ServiceEnv& env,
                                                       const grpc::CallbackServerContext& context,
                                                       grpc::ByteBuffer* response) {
  return new Upload(env, context, response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartDownload(const ServiceEnv& env,
                                                          const grpc::CallbackServerContext& context,
                                                          const grpc::ByteBuffer& request) {
  return new Download(env, context, request);
}

}  // namespace kiln::server
