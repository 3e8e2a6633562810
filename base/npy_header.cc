// A .npy file is "\x93NUMPY", two bytes of version, the header's length (2 bytes in
// version 1, 4 after), the header, then the bytes of the array. The header is the
// text of a Python dictionary with three keys:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
#include "base/npy_header.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/dtype_names.h"
#include "base/error.h"

namespace kiln {
namespace {

constexpr size_t kMaxAxes = 64;

struct Kind {
  v1::DType dtype;
  const char* descr;
};

constexpr Kind kKinds[] = {
    {v1::BOOL, "|b1"},   {v1::INT8, "|i1"},    {v1::INT16, "<i2"},   {v1::INT32, "<i4"},
    {v1::INT64, "<i8"},  {v1::UINT8, "|u1"},   {v1::UINT16, "<u2"},  {v1::UINT32, "<u4"},
    {v1::UINT64, "<u8"}, {v1::FLOAT16, "<f2"}, {v1::FLOAT32, "<f4"}, {v1::FLOAT64, "<f8"},
};

absl::Status Bad(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("not a .npy file that can be read: ", message));
}

// Reads the header's dictionary from the front of `text`, piece by piece.
class HeaderReader {
 public:
  explicit HeaderReader(absl::string_view text) : text_(text) {}

  bool Take(absl::string_view token) {
    SkipSpace();
    return absl::ConsumePrefix(&text_, token);
  }

  std::optional<absl::string_view> Quoted() {
    SkipSpace();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[0], 1);
    if (end == absl::string_view::npos) return std::nullopt;
    const absl::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }

  // "(2, 3)", "(7,)" or "()".
  std::optional<std::vector<int64_t>> Tuple() {
    if (!Take("(")) return std::nullopt;
    std::vector<int64_t> shape;
    while (!Take(")")) {
      SkipSpace();
      const size_t digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
      int64_t size = 0;
      if (!absl::SimpleAtoi(text_.substr(0, digits), &size) || shape.size() == kMaxAxes) return std::nullopt;
      text_.remove_prefix(digits);
      shape.push_back(size);
      if (!Take(",")) return Take(")") ? std::make_optional(shape) : std::nullopt;
    }
    return shape;
  }

 private:
  void SkipSpace() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n"), text_.size())); }
  absl::string_view text_;
};

absl::StatusOr<v1::DType> ParseDescr(absl::string_view descr) {
  for (const Kind& kind : kKinds) {
    if (descr == kind.descr) return kind.dtype;
  }
  // Some writers mark one-byte types as little-endian too.
  for (const Kind& kind : kKinds) {
    if (descr.size() == 3 && descr[0] != '>' && RowOf(kind.dtype).bits == 8 && descr.substr(1) == kind.descr + 1) {
      return kind.dtype;
    }
  }
  if (absl::StartsWith(descr, ">")) {
    return Bad(absl::StrCat("dtype '", descr, "' is big-endian; save a.astype(a.dtype.newbyteorder('<'))"));
  }
  if (absl::StartsWith(descr, "|V") || absl::StartsWith(descr, "<V")) {
    return Bad(
        absl::StrCat("dtype '", descr, "' is raw bytes, as bfloat16 and float8 are saved; save a.astype(np.float32)"));
  }
  return Bad(absl::StrCat("dtype '", descr, "' has no counterpart; save a.astype(np.float32) or another plain dtype"));
}

absl::StatusOr<NpyHeader> ParseDictionary(absl::string_view text) {
  HeaderReader reader(text);
  NpyHeader type;
  bool has_descr = false, has_order = false, has_shape = false;
  if (!reader.Take("{")) return Bad("the header is no dictionary");
  while (!reader.Take("}")) {
    const auto key = reader.Quoted();
    if (!key.has_value() || !reader.Take(":")) return Bad("the header is no dictionary of names");
    if (*key == "descr") {
      const auto descr = reader.Quoted();
      if (!descr.has_value()) return Bad("a structured dtype; save one field of it");
      KILN_ASSIGN_OR_RETURN(type.dtype, ParseDescr(*descr));
      has_descr = true;
    } else if (*key == "fortran_order") {
      if (reader.Take("True")) return Bad("columns come first; save np.ascontiguousarray(a)");
      if (!reader.Take("False")) return Bad("fortran_order is neither True nor False");
      has_order = true;
    } else if (*key == "shape") {
      const auto shape = reader.Tuple();
      if (!shape.has_value()) return Bad("the shape is no tuple of sizes");
      type.shape = *shape;
      has_shape = true;
    } else {
      return Bad(absl::StrCat("the header has an unknown key '", *key, "'"));
    }
    reader.Take(",");
  }
  if (!has_descr || !has_order || !has_shape) return Bad("the header lacks descr, fortran_order or shape");
  return type;
}

uint32_t LittleEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view front) {
  const size_t all = front.size();
  if (!absl::ConsumePrefix(&front, kNpyMagic)) return Bad("it does not begin with NumPy's mark");
  if (front.size() < 2) return Bad("it ends in the header");
  const int version = static_cast<uint8_t>(front[0]);
  if (version < 1 || version > 3) return Bad(absl::StrCat("format version ", version, "; known are 1 to 3"));
  front.remove_prefix(2);
  const size_t width = version == 1 ? 2 : 4;
  if (front.size() < width) return Bad("it ends in the header");
  const size_t length = LittleEndian(front.substr(0, width));
  front.remove_prefix(width);
  if (length > kMaxNpyHeader) return Bad(absl::StrCat("a header of ", length, " bytes"));
  if (front.size() < length) return Bad("it ends in the header");
  KILN_ASSIGN_OR_RETURN(NpyHeader header, ParseDictionary(front.substr(0, length)));
  header.data_begin = all - front.size() + length;
  return header;
}

absl::string_view NpyDescr(v1::DType dtype) {
  for (const Kind& kind : kKinds) {
    if (kind.dtype == dtype) return kind.descr;
  }
  return "";
}

}  // namespace kiln
