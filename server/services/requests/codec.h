// From bytes to messages and back, where the bytes are a stranger's.
//
// A decoded message is larger than its bytes: an empty node is two bytes on the
// wire and a hundred in memory. So the parts of a long message are counted where
// they lie, and one with more parts than the server works with is refused before
// any of them is made. An answer that protobuf cannot encode is refused, too: its
// sizes are 32-bit numbers, and gRPC does not look.
//
// A large message takes a large part of a second. So it is read in pieces, and no further
// once nobody waits for what it asks for.
#ifndef KILN_SERVER_SERVICES_REQUESTS_CODEC_H_
#define KILN_SERVER_SERVICES_REQUESTS_CODEC_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <climits>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "runtime/hal/module.h"
#include "server/services/requests/long_strings.h"

namespace kiln::server {

// What one request may hold.
struct RequestLimits {
  uint32_t nodes;
  uint32_t arguments = 1 << 16;  // slots are below it
  // Messages of any kind, repeated strings, unknown fields, and packed
  // numbers by the dozen.
  uint64_t parts() const { return 4 * (uint64_t{nodes} + arguments); }
};

// gRPC's bytes in pieces, for as long as they are wanted: then they end, as if there were no
// more, and stopped() says why.
class WantedBytes final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  // In bytes: what is gone through in less than a millisecond.
  static constexpr int kPiece = 64 << 10;

  // Both outlive this. Reading makes them none of the buffer's any more.
  WantedBytes(grpc::ByteBuffer* bytes, const runtime::hal::LaunchControl* control)
      : reader_(bytes), control_(*control) {}

  bool Next(const void** data, int* size) override;
  void BackUp(int count) override;
  bool Skip(int count) override;
  int64_t ByteCount() const override { return taken_; }

  // Whether they can be read at all.
  bool readable() const { return reader_ok_; }
  // OK, or the error of LaunchControl::Check with which it ended.
  const absl::Status& stopped() const { return stopped_; }

 private:
  grpc::ProtoBufferReader reader_;
  const bool reader_ok_ = reader_.status().ok();
  const runtime::hal::LaunchControl& control_;
  absl::Status stopped_;
  // What the reader has given and is not taken yet.
  const char* data_ = nullptr;
  int left_ = 0;
  int64_t taken_ = 0;
};

// GRAPH_TOO_LARGE with the limit "nodes", "arguments" or "message parts" if
// `bytes`, read as a `type`, has more; MALFORMED_MESSAGE if it is no such message, or
// has a group, which none of ours has; limit "text bytes", if a text is as long as kLong of what
// is returned. Makes nothing. Short messages pass. The errors of `control`, if it is stopped
// meanwhile. Returns which values are long.
absl::StatusOr<LongStrings> CheckParts(const grpc::ByteBuffer& bytes, const google::protobuf::Descriptor& type,
                                       const RequestLimits& limits, const runtime::hal::LaunchControl& control = {});

// In bytes: what is not larger is decoded on the thread that brings it, what is larger on one of
// the request pool.
inline constexpr uint64_t kSmallRequest = 16 << 10;
// GRAPH_TOO_LARGE, limit "message bytes", for a request that has only names and numbers, and is
// not that large.
absl::Status CheckSmall(const grpc::ByteBuffer& bytes);

// What a message of `bytes` bytes takes once it is decoded, beside these. A short one is not
// gone through for it.
template <typename Message>
uint64_t DecodedBytes(const Message& message, uint64_t bytes) {
  constexpr uint64_t kShort = 4096;
  return bytes <= kShort ? bytes : message.SpaceUsedLong();
}

// An answer of `used` bytes: OUT_OF_MEMORY, limit "answer bytes".
absl::Status AnswerTooLarge(uint64_t used, uint64_t max_bytes);

// MALFORMED_MESSAGE, or the errors of CheckParts.
template <typename Message>
absl::Status Decode(const grpc::ByteBuffer& bytes, const RequestLimits& limits, Message& message,
                    const runtime::hal::LaunchControl& control = {}) {
  const auto malformed = [&message] {
    return MakeError(v1::MALFORMED_MESSAGE, absl::StrCat("the request is no ", message.GetTypeName()));
  };
  // Of a warm call, where each microsecond counts: as one array, without a stream around it.
  if (grpc::Slice whole; bytes.Length() <= kSmallRequest && bytes.TrySingleSlice(&whole).ok()) {
    const bool decoded = message.ParseFromArray(whole.begin(), static_cast<int>(whole.size()));
    return decoded ? absl::OkStatus() : malformed();
  }
  KILN_ASSIGN_OR_RETURN(const LongStrings longs, CheckParts(bytes, *Message::descriptor(), limits, control));
  grpc::ByteBuffer readable = longs.empty() ? bytes : longs.LeaveOut(bytes);  // shares the bytes
  bool decoded = false;
  if (bytes.Length() <= kSmallRequest) {
    grpc::ProtoBufferReader reader(&readable);
    decoded = reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
  } else {
    WantedBytes reader(&readable, &control);
    decoded = reader.readable() && message.ParseFromZeroCopyStream(&reader);
    // What ends early may look whole.
    if (!reader.stopped().ok()) return reader.stopped();
  }
  return decoded ? longs.PutInto(message, bytes, control) : malformed();
}

// AnswerTooLarge() above `max_bytes`.
template <typename Message>
absl::Status Encode(const Message& message, grpc::ByteBuffer& bytes, uint64_t max_bytes = INT_MAX) {
  constexpr uint64_t kOnePiece = 16 << 10;  // in bytes: what is not larger is encoded so
  const uint64_t size = message.ByteSizeLong();
  if (size > max_bytes) return AnswerTooLarge(size, max_bytes);
  if (size <= kOnePiece) {
    grpc::Slice slice(size);
    message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
    bytes = grpc::ByteBuffer(&slice, 1);
    return absl::OkStatus();
  }
  bool own = false;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, &bytes, &own);
  return status.ok() ? absl::OkStatus() : MakeError(v1::INTERNAL_FAULT, "the answer cannot be encoded");
}

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_REQUESTS_CODEC_H_
