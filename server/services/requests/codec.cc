#include "server/services/requests/codec.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/message_parts.h"
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
static_assert(kSmallRequest <= kShort, "Decode does not count the parts of small requests");

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

// A message around the place that has been reached.
struct Open {
  const Descriptor* type;
  CodedInputStream::Limit around;  // the end of what is around it
  // Its field in what is around it, and its length there; of the whole, none.
  LongStrings::Step step = {nullptr, 0};
  LongStrings::Length length = {0, 0, 0};
  uint64_t long_bytes = 0;  // of long values in it
  // How many values its fields have so far, of those that lead to others.
  std::vector<std::pair<const FieldDescriptor*, int>> counts;

  // Which value of `field` comes next.
  LongStrings::Step Next(const FieldDescriptor* field) {
    for (auto& [counted, count] : counts) {
      if (counted == field) return {field, count++};
    }
    counts.emplace_back(field, 1);
    return {field, 0};
  }
};

// The length that comes next; whether there is one.
bool ReadLength(CodedInputStream& input, LongStrings::Length& length) {
  length.at = static_cast<uint64_t>(input.CurrentPosition());
  if (!input.ReadVarint32(&length.value) || length.value > INT_MAX) return false;
  length.width = static_cast<uint32_t>(static_cast<uint64_t>(input.CurrentPosition()) - length.at);
  return true;
}

// Of a value in the last of `open`.
absl::Status AddLong(LongStrings& longs, const LongStrings::Length& length, std::vector<Open>& open,
                     const FieldDescriptor* field) {
  LongStrings::Path path;
  if (field != nullptr) {
    for (size_t i = 1; i < open.size(); ++i) path.push_back(open[i].step);
    path.push_back(open.back().Next(field));
  }
  // Of a message that is sent in two parts protobuf makes one, in which the second part's values have other places.
  for (const LongStrings::Step& step : path) {
    if (!step.field->is_repeated() && step.index > 0) return LongStrings::SentAgain(*step.field);
  }
  longs.Add(length, std::move(path));
  for (Open& around : open) around.long_bytes += length.value;
  return absl::OkStatus();
}

absl::StatusOr<LongStrings> CountParts(WantedBytes& bytes, const Descriptor& type, const RequestLimits& limits) {
  const absl::Status malformed = MakeError(v1::MALFORMED_MESSAGE, absl::StrCat("the request is no ", type.full_name()));
  if (!bytes.readable()) return malformed;
  CodedInputStream input(&bytes);
  std::vector<Open> open(1);
  open[0].type = &type;
  Counter counter(limits);
  LongStrings longs;
  for (;;) {
    const uint32_t tag = input.ReadTag();
    if (tag == 0) {
      if (!input.ConsumedEntireMessage()) return malformed;
      if (open.size() == 1) return longs;
      if (open.back().long_bytes > 0) longs.Shorten(open.back().length, open.back().long_bytes);
      input.PopLimit(open.back().around);
      open.pop_back();
      continue;
    }
    const FieldDescriptor* field = open.back().type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    // No message here has a group; inside of one nothing could be counted.
    const auto wire = WireFormatLite::GetTagWireType(tag);
    if (wire == WireFormatLite::WIRETYPE_START_GROUP || wire == WireFormatLite::WIRETYPE_END_GROUP) return malformed;
    const FieldKind kind = FieldKindOf(field, tag);
    if (kind == FieldKind::kMessage || kind == FieldKind::kPacked) {
      LongStrings::Length length;
      if (!ReadLength(input, length) || open.size() == kDeepestMessage) return malformed;
      KILN_RETURN_IF_ERROR(kind == FieldKind::kMessage ? counter.Add(field->message_type())
                                                       : counter.Add(nullptr, length.value / kPackedInAPart));
      // Each of them becomes an argument.
      if (open.back().type == v1::Handles::descriptor()) {
        KILN_RETURN_IF_ERROR(counter.AddArguments(length.value / sizeof(uint64_t)));
      }
      const auto size = static_cast<int>(length.value);
      if (kind == FieldKind::kMessage) {
        const LongStrings::Step step = open.back().Next(field);
        open.push_back({field->message_type(), input.PushLimit(size), step, length});
      } else if (!input.Skip(size)) {
        return malformed;
      }
      continue;
    }
    if (kind == FieldKind::kPart) KILN_RETURN_IF_ERROR(counter.Add(nullptr));
    if (wire != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&input, tag)) return malformed;
      continue;
    }
    LongStrings::Length length;
    if (!ReadLength(input, length)) return malformed;
    const bool known = field != nullptr && field->type() == FieldDescriptor::TYPE_BYTES;
    const bool is_long = length.value > LongStrings::kLong;
    if (is_long && field != nullptr && field->type() == FieldDescriptor::TYPE_STRING)
      return TooMany("text bytes", LongStrings::kLong);
    if (is_long) {
      KILN_RETURN_IF_ERROR(AddLong(longs, length, open, known ? field : nullptr));
    } else if (known && field->is_repeated()) {
      open.back().Next(field);
    }
    if (!input.Skip(static_cast<int>(length.value))) return malformed;
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

absl::StatusOr<LongStrings> CheckParts(const grpc::ByteBuffer& bytes, const Descriptor& type,
                                       const RequestLimits& limits, const runtime::hal::LaunchControl& control) {
  if (bytes.Length() <= kShort) return LongStrings();
  grpc::ByteBuffer readable = bytes;  // shares the bytes
  WantedBytes reader(&readable, &control);
  absl::StatusOr<LongStrings> counted = CountParts(reader, type, limits);
  // What ends early looks malformed.
  if (!reader.stopped().ok()) return reader.stopped();
  return counted;
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
