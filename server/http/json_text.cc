#include "server/http/json_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::json;

absl::Status BadBody(absl::string_view message) { return BadField("body", message); }

// Goes through a text before it is parsed: counts what it would become, and finds the words that JSON does not have.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  absl::Status Scan() {
    size_t depth = 0, parts = 0;
    bool in_string = false;
    for (size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (in_string) {
        if (c == '\\') ++i;
        if (c == '"') in_string = false;
        continue;
      }
      switch (c) {
        case '"':
          in_string = true;
          ++parts;
          break;
        case '[':
        case '{':
          if (++depth > kMaxJsonDepth) return BadBody(absl::StrCat("is nested deeper than ", kMaxJsonDepth));
          ++parts;
          break;
        case ']':
        case '}': depth -= depth > 0 ? 1 : 0; break;
        case 'N':
        case 'I':
        case '-': i = AfterWord(i); break;
        default: break;
      }
      if (parts + words_.size() > kMaxJsonParts) {
        return BadBody(absl::StrCat("has more than ", kMaxJsonParts,
                                    " arrays, objects, names and words; send \"data\" as a flat array, or binary"));
      }
    }
    return absl::OkStatus();
  }

  // The text, with these words as strings.
  std::string Replaced() const {
    std::string made;
    made.reserve(text_.size() + 2 * words_.size());
    size_t done = 0;
    for (const auto& [begin, length] : words_) {
      absl::StrAppend(&made, text_.substr(done, begin - done), "\"", text_.substr(begin, length), "\"");
      done = begin + length;
    }
    absl::StrAppend(&made, text_.substr(done));
    return made;
  }
  bool has_words() const { return !words_.empty(); }

 private:
  // The place of the last character of the word that begins here; here, if none does.
  size_t AfterWord(size_t begin) {
    for (const absl::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (text_.substr(begin, word.size()) != word) continue;
      words_.emplace_back(begin, word.size());
      return begin + word.size() - 1;
    }
    return begin;
  }

  const absl::string_view text_;
  std::vector<std::pair<size_t, size_t>> words_;
};

json OneOf(const Message& message, const FieldDescriptor& field, const Reflection& reflection) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return reflection.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_INT32: return reflection.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64: return reflection.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32: return reflection.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64: return reflection.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_FLOAT: return reflection.GetFloat(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE: return reflection.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM: return reflection.GetEnum(message, &field)->name();
    case FieldDescriptor::CPPTYPE_STRING: return reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE: return ToJson(reflection.GetMessage(message, &field));
  }
  return nullptr;
}

json OneOf(const Message& message, const FieldDescriptor& field, const Reflection& reflection, int index) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return reflection.GetRepeatedBool(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT32: return reflection.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64: return reflection.GetRepeatedInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32: return reflection.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT64: return reflection.GetRepeatedUInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_FLOAT: return reflection.GetRepeatedFloat(message, &field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE: return reflection.GetRepeatedDouble(message, &field, index);
    case FieldDescriptor::CPPTYPE_ENUM: return reflection.GetRepeatedEnum(message, &field, index)->name();
    case FieldDescriptor::CPPTYPE_STRING: return reflection.GetRepeatedString(message, &field, index);
    case FieldDescriptor::CPPTYPE_MESSAGE: return ToJson(reflection.GetRepeatedMessage(message, &field, index));
  }
  return nullptr;
}

}  // namespace

absl::Status BadField(absl::string_view field, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(std::string(field));
  return MakeError(detail, absl::StrCat(field, ": ", message));
}

std::string Shown(absl::string_view name) {
  constexpr size_t kShown = 200;
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, kShown)), "\"");
}

absl::StatusOr<json> ParseJson(absl::string_view text) {
  if (text.empty()) return json::object();
  if (text.size() > kMaxJsonBytes) {
    return BadBody(absl::StrCat("has ", text.size(), " bytes of JSON; at most ", kMaxJsonBytes,
                                " are taken: send tensors binary, with parameters.binary_data_size"));
  }
  Scanner scanner(text);
  KILN_RETURN_IF_ERROR(scanner.Scan());
  try {
    json parsed = scanner.has_words() ? json::parse(scanner.Replaced()) : json::parse(text.begin(), text.end());
    if (!parsed.is_object()) return BadBody("is no JSON object");
    return parsed;
  } catch (const json::exception& error) {  // the library's
    // What it says ends with what it has read, of any length.
    return BadBody(absl::StrCat("is no JSON: ", absl::CHexEscape(absl::string_view(error.what()).substr(0, 200))));
  }
}

json ToJson(const Message& message) {
  json made = json::object();
  const Reflection& reflection = *message.GetReflection();
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_map()) {
      json& map = made[field.name()] = json::object();
      for (int entry = 0; entry < reflection.FieldSize(message, &field); ++entry) {
        const json pair = ToJson(reflection.GetRepeatedMessage(message, &field, entry));
        map[pair.value("key", "")] = pair.value("value", json());
      }
    } else if (field.is_repeated()) {
      json& list = made[field.name()] = json::array();
      for (int element = 0; element < reflection.FieldSize(message, &field); ++element)
        list.push_back(OneOf(message, field, reflection, element));
    } else if (!field.has_presence() || reflection.HasField(message, &field)) {
      made[field.name()] = OneOf(message, field, reflection);
    }
  }
  return made;
}

}  // namespace kiln::server
