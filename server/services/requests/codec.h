// From bytes to messages and back, where the bytes are a stranger's.
//
// A decoded message is larger than its bytes: an empty node is two bytes on the
// wire and a hundred in memory. So the parts of a long message are counted where
// they lie, and one with more parts than the server works with is refused before
// any of them is made. An answer that protobuf cannot encode is refused, too: its
// sizes are 32-bit numbers, and gRPC does not look.
#ifndef KILN_SERVER_SERVICES_REQUESTS_CODEC_H_
#define KILN_SERVER_SERVICES_REQUESTS_CODEC_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <climits>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/descriptor.h"

namespace kiln::server {

// What one request may hold.
struct RequestLimits {
  uint32_t nodes;
  uint32_t arguments = 1 << 16;  // slots are below it
  // Messages of any kind, repeated strings, unknown fields, and packed
  // numbers by the dozen.
  uint64_t parts() const { return 4 * (uint64_t{nodes} + arguments); }
};

// GRAPH_TOO_LARGE with the limit "nodes", "arguments" or "message parts" if
// `bytes`, read as a `type`, has more; MALFORMED_MESSAGE if it is no such message, or
// has a group, which none of ours has. Makes nothing. Short messages pass.
absl::Status CheckParts(const grpc::ByteBuffer& bytes, const google::protobuf::Descriptor& type,
                        const RequestLimits& limits);

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
absl::Status Decode(const grpc::ByteBuffer& bytes, const RequestLimits& limits, Message& message) {
  KILN_RETURN_IF_ERROR(CheckParts(bytes, *Message::descriptor(), limits));
  grpc::ByteBuffer readable = bytes;  // shares the bytes
  grpc::ProtoBufferReader reader(&readable);
  if (reader.status().ok() && message.ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return MakeError(v1::MALFORMED_MESSAGE, absl::StrCat("the request is no ", message.GetTypeName()));
}

// AnswerTooLarge() above `max_bytes`.
template <typename Message>
absl::Status Encode(const Message& message, grpc::ByteBuffer& bytes, uint64_t max_bytes = INT_MAX) {
  if (const uint64_t size = message.ByteSizeLong(); size > max_bytes) return AnswerTooLarge(size, max_bytes);
  bool own = false;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, &bytes, &own);
  return status.ok() ? absl::OkStatus() : MakeError(v1::INTERNAL_FAULT, "the answer cannot be encoded");
}

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_REQUESTS_CODEC_H_
