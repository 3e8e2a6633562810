#include "server/services/requests/codec.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "server/engine/memory/over_limit.h"

namespace kiln::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Whatever a shorter message holds takes a few megabytes at most.
constexpr size_t kShort = 64 << 10;
// Protobuf's own; deeper messages are malformed.
constexpr size_t kDeepest = 100;
// Packed numbers that count as one part: they take as much memory.
constexpr uint32_t kPackedInAPart = 16;

// How a field of a message lies in memory, as far as it matters here.
enum class Kind { kPlain, kPart, kPacked, kMessage };

// A field in another form than its own is one that nobody knows.
Kind KindOf(const FieldDescriptor* field, uint32_t tag) {
  const auto wire = WireFormatLite::GetTagWireType(tag);
  if (field == nullptr) return Kind::kPart;
  if (wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED && field->is_packable()) return Kind::kPacked;
  if (wire != WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field->type())))
    return Kind::kPart;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return Kind::kMessage;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) return field->is_repeated() ? Kind::kPart : Kind::kPlain;
  return Kind::kPlain;
}

absl::Status TooMany(const char* limit, uint64_t limit_value) {
  return TooLarge(limit, limit_value, limit_value + 1,  // as far as it was counted
                  absl::StrCat("the request has more than ", limit_value, " ", limit,
                               ", as many as this server takes; send several smaller ones"));
}

class Counter {
 public:
  explicit Counter(const RequestLimits& limits) : limits_(limits) {}

  absl::Status AddArguments(uint64_t arguments) {
    if ((arguments_ += arguments) > limits_.arguments) return TooMany("arguments", limits_.arguments);
    return absl::OkStatus();
  }

  // `type` is the part's, or null if it has none.
  absl::Status Add(const Descriptor* type, uint64_t parts = 1) {
    if ((parts_ += parts) > limits_.parts()) return TooMany("message parts", limits_.parts());
    if (type == v1::UOp::descriptor() && ++nodes_ > limits_.nodes) return TooMany("nodes", limits_.nodes);
    return AddArguments(type == v1::Argument::descriptor() ? 1 : 0);
  }

 private:
  const RequestLimits& limits_;
  uint64_t parts_ = 0, nodes_ = 0, arguments_ = 0;
};

absl::Status CountParts(WantedBytes& bytes, const Descriptor& type, const RequestLimits& limits) {
  const absl::Status malformed = MakeError(v1::MALFORMED_MESSAGE, absl::StrCat("the request is no ", type.full_name()));
  if (!bytes.readable()) return malformed;
  CodedInputStream input(&bytes);
  // The messages around the place that has been reached, and the end of what is
  // around each.
  struct Open {
    const Descriptor* type;
    CodedInputStream::Limit around;
  };
  std::vector<Open> open = {{&type, 0}};
  Counter counter(limits);
  for (;;) {
    const uint32_t tag = input.ReadTag();
    if (tag == 0) {
      if (!input.ConsumedEntireMessage()) return malformed;
      if (open.size() == 1) return absl::OkStatus();
      input.PopLimit(open.back().around);
      open.pop_back();
      continue;
    }
    const FieldDescriptor* field = open.back().type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    // No message here has a group; inside of one nothing could be counted.
    const auto wire = WireFormatLite::GetTagWireType(tag);
    if (wire == WireFormatLite::WIRETYPE_START_GROUP || wire == WireFormatLite::WIRETYPE_END_GROUP) return malformed;
    const Kind kind = KindOf(field, tag);
    if (kind == Kind::kMessage || kind == Kind::kPacked) {
      uint32_t length = 0;
      if (!input.ReadVarint32(&length) || length > INT_MAX || open.size() == kDeepest) return malformed;
      KILN_RETURN_IF_ERROR(kind == Kind::kMessage ? counter.Add(field->message_type())
                                                  : counter.Add(nullptr, length / kPackedInAPart));
      // Each of them becomes an argument.
      if (open.back().type == v1::Handles::descriptor()) {
        KILN_RETURN_IF_ERROR(counter.AddArguments(length / sizeof(uint64_t)));
      }
      if (kind == Kind::kMessage) {
        open.push_back({field->message_type(), input.PushLimit(static_cast<int>(length))});
      } else if (!input.Skip(static_cast<int>(length))) {
        return malformed;
      }
      continue;
    }
    if (kind == Kind::kPart) KILN_RETURN_IF_ERROR(counter.Add(nullptr));
    if (!WireFormatLite::SkipField(&input, tag)) return malformed;
  }
}

}  // namespace

bool WantedBytes::Next(const void** data, int* size) {
  if (!stopped_.ok()) return false;
  if (left_ == 0) {
    const void* next = nullptr;
    if (!reader_.Next(&next, &left_)) return false;
    data_ = static_cast<const char*>(next);
  }
  stopped_ = control_.Check();
  if (!stopped_.ok()) return false;
  *data = data_;
  *size = std::min(left_, kPiece);
  data_ += *size;
  left_ -= *size;
  taken_ += *size;
  return true;
}

void WantedBytes::BackUp(int count) {
  data_ -= count;
  left_ += count;
  taken_ -= count;
}

bool WantedBytes::Skip(int count) {
  const void* data = nullptr;
  for (int size = 0; count > 0; count -= size) {
    if (!Next(&data, &size)) return false;
    if (size <= count) continue;
    BackUp(size - count);
    return true;
  }
  return true;
}

absl::Status CheckParts(const grpc::ByteBuffer& bytes, const Descriptor& type, const RequestLimits& limits,
                        const runtime::hal::LaunchControl& control) {
  if (bytes.Length() <= kShort) return absl::OkStatus();
  grpc::ByteBuffer readable = bytes;  // shares the bytes
  WantedBytes reader(&readable, &control);
  absl::Status counted = CountParts(reader, type, limits);
  // What ends early looks malformed.
  return reader.stopped().ok() ? counted : reader.stopped();
}

absl::Status CheckSmall(const grpc::ByteBuffer& bytes) {
  if (bytes.Length() <= kSmallRequest) return absl::OkStatus();
  return TooLarge(
      "message bytes", kSmallRequest, bytes.Length(),
      absl::StrCat("this request has ", bytes.Length(), " bytes; one of its kind has at most ", kSmallRequest));
}

absl::Status AnswerTooLarge(uint64_t used, uint64_t max_bytes) {
  return OverLimit(
      "answer bytes", max_bytes, used,
      absl::StrCat("the answer has ", used, " bytes, and one message holds at most ", max_bytes, "; ask for less"));
}

}  // namespace kiln::server
