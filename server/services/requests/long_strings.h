// Long values of bytes fields, apart from the rest of their message.
//
// Protobuf takes memory for a string of more than 50 MB as its bytes come, twice as much each time, and each time it
// copies what there is: tens of milliseconds, in which nothing is looked at. So such values are left out of what it
// decodes, and are put where they belong afterwards, piece by piece. They take no more memory than they have bytes.
#ifndef KILN_SERVER_SERVICES_REQUESTS_LONG_STRINGS_H_
#define KILN_SERVER_SERVICES_REQUESTS_LONG_STRINGS_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "runtime/hal/module.h"

namespace kiln::server {

class LongStrings {
 public:
  // In bytes: protobuf makes room at once for what is not longer.
  static constexpr uint32_t kLong = 32 << 20;

  // A field of a message, and which of its values, in the order in which they are sent.
  struct Step {
    const google::protobuf::FieldDescriptor* field;
    int index;
  };
  // From the whole message to the field with a value; empty, if nobody knows the field.
  using Path = std::vector<Step>;

  // A length as it stands on the wire: a varint of `width` bytes.
  struct Length {
    uint64_t at;
    uint32_t width;
    uint32_t value;
  };

  // What is wrong with a long value in a field that may be sent once, and is sent again: MALFORMED_MESSAGE.
  static absl::Status SentAgain(const google::protobuf::FieldDescriptor& field);

  // A value, whose length is `length`, and which begins behind it. By their places in the message.
  void Add(const Length& length, Path path);
  // Where that is inside of a message: its length, and how many bytes it is now without. In any order.
  void Shorten(const Length& length, uint64_t bytes);

  bool empty() const { return values_.empty(); }

  // `bytes` without the values: each of them is empty there. Shares the rest.
  grpc::ByteBuffer LeaveOut(const grpc::ByteBuffer& bytes) const;

  // Puts them into `message`, which was decoded from LeaveOut(bytes). SentAgain() where there is no place for one:
  // protobuf has the last one count, which nobody needs. The errors of `control`, if it is stopped meanwhile.
  absl::Status PutInto(google::protobuf::Message& message, const grpc::ByteBuffer& bytes,
                       const runtime::hal::LaunchControl& control) const;

 private:
  struct Value {
    uint64_t begin;
    uint32_t bytes;
    Path path;
  };
  std::vector<Value> values_;
  std::vector<Length> lengths_;  // as they are to be
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_REQUESTS_LONG_STRINGS_H_
