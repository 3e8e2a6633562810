#include "server/logs/json_line.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/civil_time.h"

namespace kiln::server {
namespace {

// Of a line of an access log.
constexpr size_t kUsualBytes = 512;

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

// How many characters there are, from the first one on, that are written as they are and take a byte each: of most
// values, all.
size_t PlainBytes(absl::string_view text) {
  const auto is_plain = [](unsigned char byte) { return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\'; };
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_plain) - text.begin());
}

void AppendText(std::string& text, absl::string_view value) {
  text += '"';
  const size_t whole = value.size();
  while (!value.empty()) {
    const size_t done = whole - value.size();
    if (done >= kMaxValueBytes) {
      text += "…";
      break;
    }
    if (const size_t plain = PlainBytes(value.substr(0, kMaxValueBytes - done)); plain > 0) {
      text.append(value.data(), plain);
      value.remove_prefix(plain);
      continue;
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
  text += '"';
}

}  // namespace

std::string JsonText(absl::string_view value) {
  std::string text;
  AppendText(text, value);
  return text;
}

JsonLine::JsonLine(absl::Time time) {
  text_.reserve(kUsualBytes);
  // Not FormatTime, which takes as long as all else of a line.
  const auto two = [](int number) { return absl::Dec(number, absl::kZeroPad2); };
  const absl::CivilSecond second = absl::ToCivilSecond(time, absl::UTCTimeZone());
  const int64_t micros = absl::ToInt64Microseconds(time - absl::FromCivil(second, absl::UTCTimeZone()));
  absl::StrAppend(&text_, "{\"time\":\"", second.year(), "-", two(second.month()), "-", two(second.day()), "T",
                  two(second.hour()), ":", two(second.minute()), ":", two(second.second()), ".",
                  absl::Dec(micros, absl::kZeroPad6), "Z\"");
}

void JsonLine::Key(absl::string_view key) {
  if (text_.back() != '{') text_ += ',';
  absl::StrAppend(&text_, "\"", key, "\":");
}

JsonLine& JsonLine::Add(absl::string_view key, absl::string_view value) {
  Key(key);
  AppendText(text_, value);
  return *this;
}

JsonLine& JsonLine::Add(absl::string_view key, uint64_t value) {
  Key(key);
  absl::StrAppend(&text_, value);
  return *this;
}

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
