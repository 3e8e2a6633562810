#include "compiler/spec/wmma_layout.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln::compiler {
namespace {

// Which sizes, and of which dtypes.
struct Row {
  int64_t threads, m, n, k;
  std::vector<DType> in, out;
};

const std::vector<Row>& Rows() {
  static const auto& rows = *new std::vector<Row>{
      // NVIDIA's warps.
      {32, 16, 8, 16, {DType::kFloat16, DType::kBfloat16}, {DType::kFloat32, DType::kFloat16}},
      {32, 16, 8, 8, {DType::kFloat16, DType::kBfloat16}, {DType::kFloat32, DType::kFloat16}},
      {32, 16, 8, 8, {DType::kFloat32}, {DType::kFloat32}},
      {32, 16, 8, 32, {DType::kInt8, DType::kUint8}, {DType::kInt32}},
      {32, 16, 8, 32, {DType::kFloat8E4m3, DType::kFloat8E5m2}, {DType::kFloat32}},
      {32, 8, 8, 4, {DType::kFloat64}, {DType::kFloat64}},
      // AMD's wavefronts of 32 items, and of 64.
      {32, 16, 16, 16, {DType::kFloat16, DType::kBfloat16}, {DType::kFloat32}},
      {32, 16, 16, 16, {DType::kInt8, DType::kUint8}, {DType::kInt32}},
      {32, 16, 16, 16, {DType::kFloat8E4m3, DType::kFloat8E5m2}, {DType::kFloat32}},
      {64, 16, 16, 16, {DType::kFloat16, DType::kBfloat16}, {DType::kFloat32}},
      {64, 32, 32, 8, {DType::kFloat16, DType::kBfloat16}, {DType::kFloat32}},
      {64, 16, 16, 16, {DType::kInt8}, {DType::kInt32}},
      {64, 32, 32, 8, {DType::kInt8}, {DType::kInt32}},
      {64, 16, 16, 32, {DType::kInt8}, {DType::kInt32}},
      {64, 32, 32, 16, {DType::kInt8}, {DType::kInt32}},
      {64, 16, 16, 32, {DType::kFloat8E4m3Fnuz, DType::kFloat8E5m2Fnuz}, {DType::kFloat32}},
      {64, 32, 32, 16, {DType::kFloat8E4m3Fnuz, DType::kFloat8E5m2Fnuz}, {DType::kFloat32}},
      {64, 16, 16, 4, {DType::kFloat32}, {DType::kFloat32}},
      {64, 32, 32, 2, {DType::kFloat32}, {DType::kFloat32}},
      {64, 16, 16, 4, {DType::kFloat64}, {DType::kFloat64}},
  };
  return rows;
}

bool Has(const std::vector<DType>& dtypes, DType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

// PTX ISA, "Matrix fragments for mma". Of lane l, g = l / 4 and t = l % 4, with `each` elements in a register: register
// r of A has row g + 8 (r % 2) and the columns from 4 each (r / 2) + each t on; register r of B column g and the rows
// from 4 each r + each t on; element i of C row g + 8 (i / 2) and column 2 t + i % 2. Of 8 rows, A is as B is.
WmmaLayout OfNvidia(const WmmaArg& arg) {
  const int64_t each = std::max<int64_t>(1, 32 / Bits(arg.in));
  const Digit group = {4, 8, 1}, part = {1, 4, each}, none, inside = {1, each, 1};
  const bool tall = arg.m == 16;
  const Digit down = tall ? Digit{each, 2, 8} : none;
  const Digit right = {tall ? 2 * each : each, 256, 4 * each};
  return {.a = {arg.m * arg.k / 32, {group, down, none}, {part, inside, right}},
          .b = {arg.k * arg.n / 32, {part, inside, {each, 256, 4 * each}}, {group, none, none}},
          .c = {arg.m * arg.n / 32, {group, {2, 2, 8}, none}, {{1, 4, 2}, {1, 2, 1}, none}}};
}

// AMD's ISA documents of RDNA4 (by 32 items) and CDNA (by 64): an item has a row of A and a column of B, of which its
// share of neighbours along k, and one column of C. Its rows of C follow each other, but for two: of 32 there are four
// and then others', and of float64 each is four further.
WmmaLayout OfAmd(const WmmaArg& arg) {
  const int64_t shares = arg.threads / arg.m;  // along k, and of C's rows
  const int64_t along = arg.k / shares, rows = arg.m / shares;
  const Digit line = {1, arg.m, 1}, share = {arg.m, shares, along}, none, inside = {1, along, 1};
  PlaceRule row = {{arg.m, shares, rows}, {1, rows, 1}, none};
  if (arg.m == 32) row = {{32, 2, 4}, {1, 4, 1}, {4, 4, 8}};
  if (arg.in == DType::kFloat64) row = {{16, 4, 1}, {1, 4, 4}, none};
  return {.a = {along, {line, none, none}, {share, inside, none}},
          .b = {along, {share, inside, none}, {line, none, none}},
          .c = {rows, row, {line, none, none}}};
}

}  // namespace

std::optional<WmmaLayout> LayoutOf(const WmmaArg& arg) {
  for (const Row& row : Rows()) {
    if (arg.threads == row.threads && arg.m == row.m && arg.n == row.n && arg.k == row.k && Has(row.in, arg.in) &&
        Has(row.out, arg.out))
      return arg.n == 8 ? OfNvidia(arg) : OfAmd(arg);
  }
  return std::nullopt;
}

std::string WmmaShapes() {
  std::vector<std::string> shapes;
  const auto names = [](const std::vector<DType>& dtypes) {
    return absl::StrJoin(dtypes, "|", [](std::string* text, DType dtype) { absl::StrAppend(text, Name(dtype)); });
  };
  for (const Row& row : Rows()) {
    shapes.push_back(absl::StrCat(row.threads, " items (", row.n, ", ", row.m, ", ", row.k, ") of ", names(row.in),
                                  " into ", names(row.out)));
  }
  return absl::StrJoin(shapes, "; ");
}

}  // namespace kiln::compiler
