#include "base/message_parts.h"

#include <climits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace kiln {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

struct Open {
  const Descriptor* type;
  CodedInputStream::Limit around;  // the end of what is around it
};

}  // namespace

FieldKind FieldKindOf(const FieldDescriptor* field, uint32_t tag) {
  const auto wire = WireFormatLite::GetTagWireType(tag);
  if (field == nullptr) return FieldKind::kPart;
  if (wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED && field->is_packable()) return FieldKind::kPacked;
  if (wire != WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field->type())))
    return FieldKind::kPart;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return FieldKind::kMessage;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING)
    return field->is_repeated() ? FieldKind::kPart : FieldKind::kPlain;
  return FieldKind::kPlain;
}

absl::Status CountParts(absl::string_view bytes, const Descriptor& type, AddPart add) {
  const auto malformed = [&type] {
    return MakeError(v1::MALFORMED_MESSAGE, absl::StrCat("no serialized ", type.full_name()));
  };
  if (bytes.size() > INT_MAX) return malformed();
  CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  std::vector<Open> open = {{&type, 0}};
  for (;;) {
    const uint32_t tag = input.ReadTag();
    if (tag == 0) {
      if (!input.ConsumedEntireMessage()) return malformed();
      if (open.size() == 1) return absl::OkStatus();
      input.PopLimit(open.back().around);
      open.pop_back();
      continue;
    }
    const auto wire = WireFormatLite::GetTagWireType(tag);
    if (wire == WireFormatLite::WIRETYPE_START_GROUP || wire == WireFormatLite::WIRETYPE_END_GROUP) return malformed();
    const FieldDescriptor* field = open.back().type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    const FieldKind kind = FieldKindOf(field, tag);
    uint32_t length = 0;
    const bool has_length = wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (has_length && (!input.ReadVarint32(&length) || length > INT_MAX)) return malformed();
    if (kind != FieldKind::kPlain) {
      KILN_RETURN_IF_ERROR(add(kind, kind == FieldKind::kMessage ? field->message_type() : nullptr,
                               kind == FieldKind::kPacked ? length : 0));
    }
    if (kind == FieldKind::kMessage) {
      const bool ends_in_it = static_cast<int64_t>(length) <= input.BytesUntilLimit();
      if (!ends_in_it || open.size() == kDeepestMessage) return malformed();
      open.push_back({field->message_type(), input.PushLimit(static_cast<int>(length))});
    } else if (has_length ? !input.Skip(static_cast<int>(length)) : !WireFormatLite::SkipField(&input, tag)) {
      return malformed();
    }
  }
}

}  // namespace kiln
