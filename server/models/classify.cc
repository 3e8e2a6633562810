// Tested by server/models/infer_test.cc.
#include "server/models/classify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ranges>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/float_bits.h"

namespace kiln::server {
namespace {

uint64_t BitsAt(const char* element, uint64_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, bytes);
  return bits;
}

int64_t SignedAt(const char* element, uint64_t bytes) {
  const auto unused = static_cast<int>(64 - 8 * bytes);
  return static_cast<int64_t>(BitsAt(element, bytes) << unused) >> unused;
}

std::string Text(double value) { return absl::StrFormat("%f", value); }
std::string Text(int64_t value) { return absl::StrCat(value); }
std::string Text(uint64_t value) { return absl::StrCat(value); }

bool IsGreater(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a > b; }
bool IsGreater(int64_t a, int64_t b) { return a > b; }
bool IsGreater(uint64_t a, uint64_t b) { return a > b; }

// Those of one row, which has `size` elements, behind `bytes`.
template <typename At>
void AddGreatest(At at, size_t size, size_t wanted, std::string& bytes) {
  std::vector<size_t> order(wanted);                                            // and no more: a row may have millions
  const auto all = std::views::iota(uint32_t{0}, static_cast<uint32_t>(size));  // an answer has less than 2 GiB
  std::partial_sort_copy(all.begin(), all.end(), order.begin(), order.end(), [&at](size_t a, size_t b) {
    if (IsGreater(at(a), at(b))) return true;
    return !IsGreater(at(b), at(a)) && a < b;
  });
  for (size_t i = 0; i < wanted; ++i) {
    const std::string text = absl::StrCat(Text(at(order[i])), ":", order[i]);
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(text.size() >> shift & 0xff);
    bytes += text;
  }
}

}  // namespace

absl::StatusOr<Classes> GreatestOf(const Datatype& datatype, absl::string_view data, std::optional<size_t> rows,
                                   uint32_t count) {
  const size_t parts = rows.value_or(1), size = data.size() / datatype.bytes / std::max<size_t>(parts, 1);
  const size_t wanted = std::min<size_t>(count, size);
  if (wanted > 0 && parts > kMaxClasses / wanted) {
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field("classification");
    detail.set_limit("classes");
    detail.set_limit_value(kMaxClasses);
    detail.set_used(parts * wanted);
    return MakeError(std::move(detail),
                     absl::StrCat(wanted, " classes of each of ", parts, " rows; one output has at most ", kMaxClasses,
                                  " in all: ask for fewer, or for the tensor"));
  }
  Classes classes;
  if (rows.has_value()) classes.shape.push_back(static_cast<int64_t>(parts));
  classes.shape.push_back(static_cast<int64_t>(wanted));
  for (size_t row = 0; row < parts; ++row) {
    const char* const first = data.data() + row * size * datatype.bytes;
    const auto element = [&](size_t i) { return first + i * datatype.bytes; };
    const auto add = [&](auto at) { AddGreatest(at, size, wanted, classes.bytes); };
    switch (datatype.dtype) {
      case v1::INT8:
      case v1::INT16:
      case v1::INT32:
      case v1::INT64: add([&](size_t i) { return SignedAt(element(i), datatype.bytes); }); break;
      case v1::FLOAT16:
      case v1::BFLOAT16:
      case v1::FLOAT32:
      case v1::FLOAT64:
        add([&](size_t i) { return BitsToFloat(datatype.dtype, BitsAt(element(i), datatype.bytes)); });
        break;
      default: add([&](size_t i) { return BitsAt(element(i), datatype.bytes); }); break;
    }
  }
  return classes;
}

}  // namespace kiln::server
