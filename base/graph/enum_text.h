// Enum values in the text form: a name, or the number where none is known, so
// that a message from a newer client prints and parses back too.
#ifndef KILN_BASE_GRAPH_ENUM_TEXT_H_
#define KILN_BASE_GRAPH_ENUM_TEXT_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/dtype_names.h"
#include "base/graph/text_scanner.h"
#include "google/protobuf/generated_enum_reflection.h"

namespace kiln {

// `prefix` is left out of every name.
template <typename Enum>
std::string PrintEnum(Enum value, absl::string_view prefix = "") {
  const auto* row = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  if (row == nullptr) return absl::StrCat(static_cast<int>(value));
  absl::string_view name = row->name();
  if (absl::StartsWith(name, prefix)) name.remove_prefix(prefix.size());
  return std::string(name);
}

// "SPLIT, PADTO or SWAP": every value but the first, which says that none was given.
template <typename Enum>
std::string EnumNames() {
  const auto* descriptor = google::protobuf::GetEnumDescriptor<Enum>();
  std::string names;
  for (int i = 1; i < descriptor->value_count(); ++i) {
    const char* between = i == 1 ? "" : i + 1 == descriptor->value_count() ? " or " : ", ";
    absl::StrAppend(&names, between, std::string(descriptor->value(i)->name()));
  }
  return names;
}

template <typename Enum>
Enum ParseEnum(TextScanner& in, absl::string_view what, absl::string_view prefix = "") {
  const absl::string_view word = in.PeekWord();
  int number = 0;
  if (!absl::SimpleAtoi(word, &number)) {
    const auto* descriptor = google::protobuf::GetEnumDescriptor<Enum>();
    const auto* row = descriptor->FindValueByName(absl::StrCat(prefix, word));
    if (row == nullptr) {
      in.Fail(what);
      return Enum();
    }
    number = row->number();
  }
  in.Word(what);
  return static_cast<Enum>(number);
}

// "float32"; "untyped" for DTYPE_UNSPECIFIED, "dtype_99" for an unknown one.
inline std::string PrintDType(v1::DType dtype) {
  if (dtype == v1::DTYPE_UNSPECIFIED) return "untyped";
  const absl::string_view name = DTypeName(dtype);
  return name.empty() ? absl::StrCat("dtype_", static_cast<int>(dtype)) : std::string(name);
}

// Takes a dtype if one is next, and says whether it was.
inline bool TakeDType(TextScanner& in, v1::DType& dtype) {
  absl::string_view word = in.PeekWord();
  int number = 0;
  if (word == "untyped") {
    dtype = v1::DTYPE_UNSPECIFIED;
  } else if (const auto known = ParseDType(word); known.has_value()) {
    dtype = *known;
  } else if (absl::StartsWith(word, "dtype_") && absl::SimpleAtoi(word.substr(6), &number)) {
    dtype = static_cast<v1::DType>(number);
  } else {
    return false;
  }
  in.Word("a dtype");
  return in.ok();
}

inline v1::DType ExpectDType(TextScanner& in) {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  if (!TakeDType(in, dtype)) in.Fail("a dtype (bool, int8 … uint64, float16, bfloat16, float32, float64, weakint, …)");
  return dtype;
}

}  // namespace kiln

#endif  // KILN_BASE_GRAPH_ENUM_TEXT_H_
