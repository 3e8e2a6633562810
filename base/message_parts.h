// How much a serialized message becomes in memory, counted where it lies.
//
// An empty node is two bytes on the wire and a hundred in memory, so a limit of bytes bounds too little. What takes
// memory of its own is a part: a message, a repeated string, a field that nobody knows, and packed numbers by the
// dozen. Who reads a stranger's message counts its parts first, and makes none of them where there are too many.
#ifndef KILN_BASE_MESSAGE_PARTS_H_
#define KILN_BASE_MESSAGE_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace kiln {

// How a field of a message lies in memory, as far as it matters here.
enum class FieldKind { kPlain, kPart, kPacked, kMessage };

// By its tag on the wire; null: nobody knows the field. One in another form than its own is one that nobody knows.
FieldKind FieldKindOf(const google::protobuf::FieldDescriptor* field, uint32_t tag);

// Bytes of packed numbers that count as one part: they take as much memory.
inline constexpr uint32_t kPackedInAPart = 16;
// Messages in messages: protobuf's own limit, beyond which they are malformed.
inline constexpr size_t kDeepestMessage = 100;

// Asks `add` of each field of `bytes`, a message of `type`, that is not plain: with the descriptor of a message, and
// the bytes of packed numbers; null and 0 otherwise. Ends with its first error. MALFORMED_MESSAGE for what is no such
// message, or has a group, in which nothing could be counted. Makes nothing.
using AddPart = absl::FunctionRef<absl::Status(FieldKind, const google::protobuf::Descriptor*, uint64_t)>;
absl::Status CountParts(absl::string_view bytes, const google::protobuf::Descriptor& type, AddPart add);

}  // namespace kiln

#endif  // KILN_BASE_MESSAGE_PARTS_H_
