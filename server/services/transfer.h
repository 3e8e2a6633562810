// Uploads and downloads of any size, in chunks, without a copy in between: a
// chunk goes from gRPC's own memory to the device's and back, as one entry of the
// device's queue.
//
// One chunk is with the device while the next one travels, and no more: a slow device
// holds its client back through HTTP/2's flow control, and so does a slow client a download.
#ifndef KILN_SERVER_SERVICES_TRANSFER_H_
#define KILN_SERVER_SERVICES_TRANSFER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "kiln/v1/buffer_service.pb.h"

namespace kiln::server {

inline constexpr uint64_t kChunkBytes = 1 << 20;

// A WriteRequest taken apart in place.
struct WritePart {
  // Set: the stream's first message. Else a chunk.
  absl::optional<v1::WriteHeader> header;
  // The chunk's pieces, in order. They point into the message's bytes, which
  // `bytes` keeps.
  std::vector<absl::string_view> pieces;
  uint64_t size = 0;
  std::shared_ptr<void> bytes;
};

// MALFORMED_MESSAGE if `message` is no WriteRequest, or has two parts.
absl::StatusOr<WritePart> ParseWritePart(const grpc::ByteBuffer& message);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_TRANSFER_H_
