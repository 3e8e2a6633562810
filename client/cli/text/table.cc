#include "client/cli/text/table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cpp/arrays/dtype.h"

namespace kiln::cli {
namespace {

// "3", "-1.5", "nan" or "12.3 ms".
bool LooksLikeNumber(absl::string_view cell) {
  const size_t space = cell.find(' ');
  double unused = 0;
  return absl::SimpleAtod(cell.substr(0, space), &unused) &&
         (space == absl::string_view::npos || absl::ascii_isalpha(cell.back()));
}

// Columns, not bytes: a continuation byte of UTF-8 takes no place of its own.
size_t Width(const std::string& cell) {
  return std::count_if(cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string Scaled(double value, const char* const* units, int count, double step) {
  int unit = 0;
  while (value >= step && unit + 1 < count) {
    value /= step;
    ++unit;
  }
  return absl::StrFormat("%.4g %s", value, units[unit]);
}

template <typename T>
std::string Type(const T& value) {
  return client::TypeText(value.dtype(), client::Shape(value.shape().begin(), value.shape().end()));
}

}  // namespace

std::string TableText(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - Width(row[i]), ' ');
      const bool right = LooksLikeNumber(row[i]);
      absl::StrAppend(&line, i == 0 ? "" : "  ", right ? space : "", row[i], right ? "" : space);
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

std::string MicrosText(double micros) {
  static constexpr const char* kUnits[] = {"us", "ms", "s"};
  return Scaled(micros, kUnits, 3, 1000);
}

std::string BytesText(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  return Scaled(bytes, kUnits, 5, 1000);
}

std::string SignatureText(const v1::Signature& signature) {
  std::vector<std::string> parameters, results;
  for (const v1::Signature::Parameter& parameter : signature.parameters()) {
    parameters.push_back(
        absl::StrCat(parameter.name().empty() ? absl::StrCat("slot ", parameter.slot()) : parameter.name(), ": ",
                     Type(parameter), parameter.written() ? " updated" : ""));
  }
  for (const v1::Signature::Result& result : signature.results()) {
    results.push_back(
        absl::StrCat(Type(result), result.has_aliases() ? absl::StrCat(" (parameter ", result.aliases(), ")") : ""));
  }
  return absl::StrCat("(", absl::StrJoin(parameters, ", "), ") -> ",
                      results.empty() ? "nothing" : absl::StrJoin(results, ", "));
}

}  // namespace kiln::cli
