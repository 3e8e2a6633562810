#include "server/services/requests/long_strings.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/error.h"

namespace kiln::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Between two looks at whether it is still wanted.
constexpr uint64_t kPiece = 64 << 10;

// A varint may have more bytes than it needs.
std::string Varint(uint32_t value, uint32_t width) {
  std::string wire(width, '\x80');
  for (char& byte : wire) {
    byte = static_cast<char>(byte | (value & 127));
    value >>= 7;
  }
  wire.back() = static_cast<char>(wire.back() & 127);
  return wire;
}

std::vector<grpc::Slice> SlicesOf(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  KILN_CHECK(bytes.Dump(&slices).ok());
  return slices;
}

// Calls `take` with each slice's part of [begin, end), until one fails.
template <typename Take>
absl::Status EachPart(const std::vector<grpc::Slice>& slices, uint64_t begin, uint64_t end, const Take& take) {
  uint64_t at = 0;
  for (const grpc::Slice& slice : slices) {
    const uint64_t first = std::max(at, begin), last = std::min(at + slice.size(), end);
    if (first < last) KILN_RETURN_IF_ERROR(take(slice, first - at, last - at));
    at += slice.size();
    if (at >= end) break;
  }
  return absl::OkStatus();
}

// The message with the last field of `path`, or null if it is not there.
Message* HolderOf(Message& message, const LongStrings::Path& path) {
  Message* holder = &message;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const FieldDescriptor* field = path[i].field;
    const auto& reflection = *holder->GetReflection();
    if (field->is_repeated()) {
      if (path[i].index >= reflection.FieldSize(*holder, field)) return nullptr;
      holder = reflection.MutableRepeatedMessage(holder, field, path[i].index);
    } else {
      if (!reflection.HasField(*holder, field)) return nullptr;
      holder = reflection.MutableMessage(holder, field);
    }
  }
  return holder;
}

// Gives `holder`'s field the value, if it has it, empty.
bool Set(Message& holder, const LongStrings::Step& step, std::string value) {
  const auto& reflection = *holder.GetReflection();
  if (step.field->is_repeated()) {
    if (step.index >= reflection.FieldSize(holder, step.field)) return false;
    if (!reflection.GetRepeatedString(holder, step.field, step.index).empty()) return false;
    reflection.SetRepeatedString(&holder, step.field, step.index, std::move(value));
    return true;
  }
  // Whether an empty one is there is known of some fields only.
  if (step.field->has_presence() && !reflection.HasField(holder, step.field)) return false;
  if (!reflection.GetString(holder, step.field).empty()) return false;
  reflection.SetString(&holder, step.field, std::move(value));
  return true;
}

}  // namespace

absl::Status LongStrings::SentAgain(const FieldDescriptor& field) {
  return MakeError(v1::MALFORMED_MESSAGE,
                   absl::StrCat("the request's field ", field.full_name(),
                                " is sent more than once, with a value of more than ", kLong, " bytes"));
}

void LongStrings::Add(const Length& length, Path path) {
  values_.push_back({length.at + length.width, length.value, std::move(path)});
  lengths_.push_back({length.at, length.width, 0});
}

void LongStrings::Shorten(const Length& length, uint64_t bytes) {
  KILN_CHECK(bytes <= length.value);
  lengths_.push_back({length.at, length.width, length.value - static_cast<uint32_t>(bytes)});
}

grpc::ByteBuffer LongStrings::LeaveOut(const grpc::ByteBuffer& bytes) const {
  // What is not taken over as it is, in its order: a length is another one, a value is nothing.
  struct Change {
    uint64_t begin, end;
    std::string by;
  };
  std::vector<Change> changes;
  for (const Length& length : lengths_)
    changes.push_back({length.at, length.at + length.width, Varint(length.value, length.width)});
  for (const Value& value : values_) changes.push_back({value.begin, value.begin + value.bytes, ""});
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.begin < b.begin; });
  const std::vector<grpc::Slice> slices = SlicesOf(bytes);
  std::vector<grpc::Slice> kept;
  const auto keep = [&kept](const grpc::Slice& slice, uint64_t begin, uint64_t end) {
    kept.push_back(slice.sub(begin, end));
    return absl::OkStatus();
  };
  uint64_t at = 0;
  for (const Change& change : changes) {
    EachPart(slices, at, change.begin, keep).IgnoreError();
    if (!change.by.empty()) kept.emplace_back(change.by);
    at = change.end;
  }
  EachPart(slices, at, bytes.Length(), keep).IgnoreError();
  return grpc::ByteBuffer(kept.data(), kept.size());
}

absl::Status LongStrings::PutInto(Message& message, const grpc::ByteBuffer& bytes,
                                  const runtime::hal::LaunchControl& control) const {
  if (values_.empty()) return absl::OkStatus();
  const std::vector<grpc::Slice> slices = SlicesOf(bytes);
  for (const Value& value : values_) {
    if (value.path.empty()) continue;
    std::string whole;
    whole.reserve(value.bytes);
    absl::Status wanted = EachPart(slices, value.begin, value.begin + value.bytes,
                                   [&](const grpc::Slice& slice, uint64_t begin, uint64_t end) {
                                     for (uint64_t next; begin < end; begin = next) {
                                       next = std::min(end, begin + kPiece);
                                       KILN_RETURN_IF_ERROR(control.Check());
                                       whole.append(reinterpret_cast<const char*>(slice.begin()) + begin, next - begin);
                                     }
                                     return absl::OkStatus();
                                   });
    Message* const holder = HolderOf(message, value.path);
    const bool set = holder != nullptr && Set(*holder, value.path.back(), std::move(whole));
    // Also a part of it: to free 60 MiB may take longer than a stop, and the message goes after the answer.
    KILN_RETURN_IF_ERROR(wanted);
    if (!set) return SentAgain(*value.path.back().field);
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
