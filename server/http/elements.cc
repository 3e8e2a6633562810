#include "server/http/elements.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln::server {
namespace {

using nlohmann::json;

template <typename T>
bool Append(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return true;
}

bool ReadBool(const json& value, std::string& bytes) {
  return value.is_boolean() && Append<char>(value.get<bool>() ? 1 : 0, bytes);
}

template <typename T>
bool ReadInteger(const json& value, std::string& bytes) {
  using Limits = std::numeric_limits<T>;
  // What has no sign is unsigned to the parser.
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number <= static_cast<uint64_t>(Limits::max()) && Append(static_cast<T>(number), bytes);
  }
  if (!value.is_number_integer()) return false;
  const auto number = value.get<int64_t>();
  if constexpr (std::is_unsigned_v<T>) {
    return false;  // a negative one
  } else {
    return number >= Limits::min() && Append(static_cast<T>(number), bytes);
  }
}

// JSON has no words for these, but the protocol's clients write them; the parser is given them as text.
bool ReadWord(const json& value, double& number) {
  const auto& word = value.get_ref<const std::string&>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (word == "NaN")
    number = std::numeric_limits<double>::quiet_NaN();
  else if (word == "Infinity")
    number = kInfinity;
  else if (word == "-Infinity")
    number = -kInfinity;
  else
    return false;
  return true;
}

template <typename T>
bool ReadFloat(const json& value, std::string& bytes) {
  double number = 0;
  if (value.is_string()) return ReadWord(value, number) && Append(static_cast<T>(number), bytes);
  if (!value.is_number()) return false;
  number = value.get<double>();
  const auto narrow = static_cast<T>(number);
  return std::isfinite(narrow) && Append(narrow, bytes);
}

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

void WriteBool(const char* bytes, std::string& text) { text += *bytes != 0 ? "true" : "false"; }

template <typename T>
void WriteNumber(const char* bytes, std::string& text) {
  const T value = Load<T>(bytes);
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return void(text += "NaN");
    if (std::isinf(value)) return void(text += value > 0 ? "Infinity" : "-Infinity");
  }
  // The shortest that reads back as the same.
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  text.append(digits, end);
}

template <typename T>
constexpr JsonDatatype Integer(absl::string_view name, absl::string_view takes) {
  return {name, sizeof(T), takes, ReadInteger<T>, WriteNumber<T>};
}
template <typename T>
constexpr JsonDatatype Float(absl::string_view name) {
  return {name, sizeof(T), "a finite number of its range, NaN, Infinity or -Infinity", ReadFloat<T>, WriteNumber<T>};
}

constexpr JsonDatatype kDatatypes[] = {
    {"BOOL", 1, "true or false", ReadBool, WriteBool},
    Integer<uint8_t>("UINT8", "an integer from 0 to 255"),
    Integer<uint16_t>("UINT16", "an integer from 0 to 65535"),
    Integer<uint32_t>("UINT32", "an integer from 0 to 4294967295"),
    Integer<uint64_t>("UINT64", "an integer from 0 to 18446744073709551615"),
    Integer<int8_t>("INT8", "an integer from -128 to 127"),
    Integer<int16_t>("INT16", "an integer from -32768 to 32767"),
    Integer<int32_t>("INT32", "an integer from -2147483648 to 2147483647"),
    Integer<int64_t>("INT64", "an integer from -9223372036854775808 to 9223372036854775807"),
    {"FP16", 2, "", nullptr, nullptr},
    Float<float>("FP32"),
    Float<double>("FP64"),
    {"BF16", 2, "", nullptr, nullptr},
};

}  // namespace

const JsonDatatype* JsonDatatypeOf(absl::string_view name) {
  for (const JsonDatatype& row : kDatatypes) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::string JsonDatatypeNames() {
  return absl::StrJoin(kDatatypes, ", ",
                       [](std::string* text, const JsonDatatype& row) { absl::StrAppend(text, row.name); });
}

}  // namespace kiln::server
