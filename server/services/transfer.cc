#include "server/services/transfer.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace kiln::server {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr uint32_t kHeaderTag =
    WireFormatLite::MakeTag(v1::WriteRequest::kHeaderFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kChunkTag =
    WireFormatLite::MakeTag(v1::WriteRequest::kChunkFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

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

}  // namespace kiln::server
