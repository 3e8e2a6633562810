#include "client/play/compare.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/float_bits.h"
#include "client/cpp/arrays/dtype.h"
#include "kiln/v1/tensor.pb.h"

namespace kiln::play {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The value with its bits, since two NaNs or zeros may look the same.
std::string ElementText(absl::string_view bytes, v1::DType dtype) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  const std::string hex = absl::StrFormat("0x%0*x", static_cast<int>(2 * bytes.size()), bits);
  if (client::IsFloat(dtype)) return absl::StrFormat("%.17g (%s)", BitsToFloat(dtype, bits), hex);
  if (!client::IsSigned(dtype)) return absl::StrCat(bits, " (", hex, ")");
  const int unused = static_cast<int>(64 - 8 * bytes.size());
  return absl::StrCat(static_cast<int64_t>(bits << unused) >> unused, " (", hex, ")");
}

// Fields that say what came out; all others say how.
bool Matters(const FieldDescriptor& field) {
  static const char* const names[] = {"data", "chunk", "dtype", "shape", "graph_hash", "recording", "axis"};
  return std::find(std::begin(names), std::end(names), field.name()) != std::end(names) ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}
bool IsAside(const FieldDescriptor& field) {
  static const char* const names[] = {"timing", "cost", "report"};
  return std::find(std::begin(names), std::end(names), field.name()) != std::end(names);
}

const Message& PartOf(const Message& message, const FieldDescriptor* field, int i) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  return field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                              : reflection.GetMessage(message, field);
}

int CountOf(const Message& message, const FieldDescriptor* field) {
  return field->is_repeated() ? message.GetReflection()->FieldSize(message, field)
                              : static_cast<int>(message.GetReflection()->HasField(message, field));
}

// A scalar field as text; bytes as they are.
std::string TextOf(const Message& message, const FieldDescriptor* field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (field->is_repeated()) {
    std::string text;
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      absl::StrAppend(&text, i == 0 ? "" : ", ", reflection.GetRepeatedInt64(message, field, i));
    }
    return text;
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: return reflection.GetString(message, field);
    case FieldDescriptor::CPPTYPE_ENUM: return reflection.GetEnum(message, field)->name();
    case FieldDescriptor::CPPTYPE_UINT32: return absl::StrCat(reflection.GetUInt32(message, field));
    default: return "";
  }
}

v1::DType DTypeOf(const Message& message) {
  return message.GetDescriptor() == v1::Tensor::descriptor() ? static_cast<const v1::Tensor&>(message).dtype()
                                                             : v1::DTYPE_UNSPECIFIED;
}

absl::optional<Mismatch> CompareField(const Message& captured, const Message& played, const FieldDescriptor* field) {
  const int count = CountOf(captured, field), other = CountOf(played, field);
  const bool parts = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (parts && count != other) return Mismatch{field->name(), absl::StrCat(count), absl::StrCat(other)};
  for (int i = 0; parts && i < count; ++i) {
    auto mismatch = CompareAnswers(PartOf(captured, field, i), PartOf(played, field, i));
    if (!mismatch.has_value()) continue;
    const std::string index = field->is_repeated() ? absl::StrCat("[", i, "]") : "";
    mismatch->where = absl::StrCat(field->name(), index, ".", mismatch->where);
    return mismatch;
  }
  if (parts) return absl::nullopt;
  const std::string one = TextOf(captured, field), two = TextOf(played, field);
  if (field->type() == FieldDescriptor::TYPE_BYTES) {
    auto mismatch = CompareData(one, two, DTypeOf(captured), 0);
    if (mismatch.has_value()) mismatch->where = field->name() + mismatch->where;
    return mismatch;
  }
  if (one == two) return absl::nullopt;
  return Mismatch{field->name(), one, two};
}

}  // namespace

absl::optional<Mismatch> CompareData(absl::string_view captured, absl::string_view played, v1::DType dtype,
                                     uint64_t first_byte) {
  if (captured.size() != played.size()) {
    return Mismatch{"", absl::StrCat(captured.size(), " bytes"), absl::StrCat(played.size(), " bytes")};
  }
  if (std::memcmp(captured.data(), played.data(), captured.size()) == 0) return absl::nullopt;
  const size_t at = std::mismatch(captured.begin(), captured.end(), played.begin()).first - captured.begin();
  const size_t size = std::max<size_t>(client::DTypeSize(dtype), 1);
  const uint64_t element = (first_byte + at) / size;
  // A piece may begin in the middle of an element.
  const uint64_t begin = element * size;
  if (begin < first_byte || begin + size > first_byte + captured.size()) {
    return Mismatch{absl::StrCat("[", element, "]"), ElementText(captured.substr(at, 1), v1::DTYPE_UNSPECIFIED),
                    ElementText(played.substr(at, 1), v1::DTYPE_UNSPECIFIED)};
  }
  return Mismatch{absl::StrCat("[", element, "]"), ElementText(captured.substr(begin - first_byte, size), dtype),
                  ElementText(played.substr(begin - first_byte, size), dtype)};
}

absl::optional<Mismatch> CompareAnswers(const Message& captured, const Message& played) {
  const google::protobuf::Descriptor& type = *captured.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    if (!Matters(*field) || IsAside(*field)) continue;
    auto mismatch = CompareField(captured, played, field);
    if (mismatch.has_value()) return mismatch;
  }
  return absl::nullopt;
}

}  // namespace kiln::play
