#include "server/logs/json_line.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kiln::server {
namespace {

// How many bytes the character has that begins here; 0 if none begins. Neither what is written longer than it must be,
// nor halves of characters, are any.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first < 0xf0) {
    const bool is_short = first == 0xe0 && byte(1) < 0xa0, is_half = first == 0xed && byte(1) >= 0xa0;
    return follows(1) && follows(2) && !is_short && !is_half ? 3 : 0;
  }
  if (first >= 0xf0 && first < 0xf5) {
    const bool is_short = first == 0xf0 && byte(1) < 0x90, is_beyond = first == 0xf4 && byte(1) >= 0x90;
    return follows(1) && follows(2) && follows(3) && !is_short && !is_beyond ? 4 : 0;
  }
  return 0;
}

// Controls, of which some end a line for some programs, and what turns the direction of text.
bool IsToBeEscaped(absl::string_view character) {
  const unsigned char first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f || first == '"' || first == '\\';
  if (character.size() == 2) return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  return (character >= "\xe2\x80\xa8" && character <= "\xe2\x80\xae") ||
         (character >= "\xe2\x81\xa6" && character <= "\xe2\x81\xa9");
}

unsigned CodeOf(absl::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  if (character.size() == 2) return (byte(0) & 0x1fu) << 6 | (byte(1) & 0x3fu);
  return (byte(0) & 0x0fu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
}

}  // namespace

std::string JsonText(absl::string_view value) {
  std::string text = "\"";
  const size_t whole = value.size();
  while (!value.empty()) {
    if (whole - value.size() >= kMaxValueBytes) {
      text += "…";
      break;
    }
    const size_t bytes = CharacterBytes(value);
    if (bytes == 0) {
      text += "\\ufffd";
      value.remove_prefix(1);
      continue;
    }
    const absl::string_view character = value.substr(0, bytes);
    if (IsToBeEscaped(character)) {
      absl::StrAppend(&text, absl::StrFormat("\\u%04x", CodeOf(character)));
    } else {
      absl::StrAppend(&text, character);
    }
    value.remove_prefix(bytes);
  }
  return text + "\"";
}

JsonLine::JsonLine(absl::Time time)
    : text_(absl::StrCat("{\"time\":\"", absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", time, absl::UTCTimeZone()), "\"")) {
}

void JsonLine::Key(absl::string_view key) {
  if (text_.back() != '{') text_ += ',';
  absl::StrAppend(&text_, "\"", key, "\":");
}

JsonLine& JsonLine::Add(absl::string_view key, absl::string_view value) {
  Key(key);
  text_ += JsonText(value);
  return *this;
}

JsonLine& JsonLine::Add(absl::string_view key, uint64_t value) { return AddLiteral(key, absl::StrCat(value)); }

JsonLine& JsonLine::AddLiteral(absl::string_view key, absl::string_view value) {
  Key(key);
  text_.append(value.data(), value.size());
  return *this;
}

JsonLine& JsonLine::Open(absl::string_view key) {
  Key(key);
  text_ += '{';
  return *this;
}

JsonLine& JsonLine::Close() {
  text_ += '}';
  return *this;
}

std::string JsonLine::Take() {
  text_ += "}\n";
  return std::move(text_);
}

}  // namespace kiln::server
