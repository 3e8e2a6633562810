// Uploads and downloads of any size: chunks of about 1 MiB, taken from the caller's
// memory and put there without a copy in between (kiln/v1/buffer_service.proto, Write
// and Read).
#ifndef KILN_CLIENT_CPP_TRANSPORT_TRANSFER_H_
#define KILN_CLIENT_CPP_TRANSPORT_TRANSFER_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cpp/transport/connection.h"
#include "kiln/v1/tensor.pb.h"

namespace kiln::client {

// The bytes are the caller's again when it returns.
absl::Status Upload(Connection& connection, const v1::BufferRef& to, absl::string_view bytes);

// As many bytes as `to` has; INTERNAL if another number of them comes.
absl::Status Download(Connection& connection, const v1::BufferRef& from, absl::Span<char> to);
// `bytes` bytes, chunk after chunk; `room` says where the next `size` of them go.
absl::Status Download(Connection& connection, const v1::BufferRef& from, uint64_t bytes,
                      absl::FunctionRef<char*(size_t size)> room);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_TRANSFER_H_
