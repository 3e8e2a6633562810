#include "client/cpp/size.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln::client {
namespace {

// At the ends of int64 where the result is beyond it.
int64_t ClampedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

int64_t ClampedSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

}  // namespace

Size::Size(SizeVariable variable) : terms_(std::make_shared<Terms>(Terms{{{std::move(variable)}, 1}})) {}

Size Size::Invalid() {
  Size size;
  size.valid_ = false;
  return size;
}

Size Size::Of(Terms terms) {
  std::erase_if(terms, [](const auto& term) { return term.second == 0; });
  Size size;
  if (terms.empty()) return size;
  if (terms.size() == 1 && terms.begin()->first.empty()) return Size(terms.begin()->second);
  size.terms_ = std::make_shared<Terms>(std::move(terms));
  return size;
}

Size::Terms Size::terms() const { return terms_ ? *terms_ : Terms{{{}, number_}}; }

Size operator+(const Size& a, const Size& b) {
  if (!a.valid_ || !b.valid_) return Size::Invalid();
  Size::Terms sum = a.terms();
  for (const auto& [variables, factor] : b.terms()) {
    if (__builtin_add_overflow(sum[variables], factor, &sum[variables])) return Size::Invalid();
  }
  return Size::Of(std::move(sum));
}

Size operator-(const Size& a, const Size& b) { return a + b * -1; }

Size operator*(const Size& a, const Size& b) {
  if (!a.valid_ || !b.valid_) return Size::Invalid();
  Size::Terms product;
  for (const auto& [left, x] : a.terms()) {
    for (const auto& [right, y] : b.terms()) {
      std::vector<SizeVariable> variables;
      std::merge(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(variables));
      int64_t factor = 0, &total = product[variables];
      if (__builtin_mul_overflow(x, y, &factor) || __builtin_add_overflow(total, factor, &total)) {
        return Size::Invalid();
      }
    }
  }
  return Size::Of(std::move(product));
}

bool operator==(const Size& a, const Size& b) {
  if (!a.valid_ || !b.valid_) return false;
  if (!a.terms_ || !b.terms_) return !a.terms_ && !b.terms_ && a.number_ == b.number_;
  return a.terms_ == b.terms_ || *a.terms_ == *b.terms_;
}

std::optional<Size> Size::DividedBy(const Size& divisor) const {
  if (!valid_ || !divisor.valid_) return std::nullopt;
  const Terms by = divisor.terms();
  if (by.size() != 1) return *this == divisor ? std::optional<Size>(1) : std::nullopt;
  const auto& [variables, factor] = *by.begin();
  if (factor == 0) return std::nullopt;
  Terms quotient;
  for (const auto& [monomial, coefficient] : terms()) {
    // Both are in order, so each variable of the divisor is met on the way.
    std::vector<SizeVariable> rest;
    std::set_difference(monomial.begin(), monomial.end(), variables.begin(), variables.end(), std::back_inserter(rest));
    const bool beyond = factor == -1 && coefficient == std::numeric_limits<int64_t>::min();
    if (rest.size() + variables.size() != monomial.size() && coefficient != 0) return std::nullopt;
    if (beyond || coefficient % factor != 0) return std::nullopt;
    quotient[rest] = coefficient / factor;
  }
  return Of(std::move(quotient));
}

int64_t Size::Bound(bool upper) const {
  int64_t total = 0;
  for (const auto& [variables, factor] : terms()) {
    int64_t low = 1, high = 1;
    for (const SizeVariable& variable : variables) {  // none is negative
      low = ClampedProduct(low, variable.least);
      high = ClampedProduct(high, variable.greatest);
    }
    total = ClampedSum(total, ClampedProduct(factor, (factor > 0) == upper ? high : low));
  }
  return total;
}

std::string Size::Text() const {
  if (!valid_) return "beyond int64";
  if (!terms_) return absl::StrCat(number_);
  std::string text;
  for (auto term = terms_->rbegin(); term != terms_->rend(); ++term) {
    const auto& [variables, factor] = *term;
    const bool minus = factor < 0 && !text.empty();
    const uint64_t size = minus ? uint64_t{0} - static_cast<uint64_t>(factor) : static_cast<uint64_t>(factor);
    std::vector<std::string> parts;
    if (factor < 0 && !minus) {
      parts.push_back(absl::StrCat(factor));
    } else if (size != 1 || variables.empty()) {
      parts.push_back(absl::StrCat(size));
    }
    for (const SizeVariable& variable : variables) {
      parts.push_back(variable.name.empty() ? absl::StrCat("v", variable.slot) : variable.name);
    }
    absl::StrAppend(&text, text.empty() ? "" : minus ? " - " : " + ", absl::StrJoin(parts, "*"));
  }
  return text;
}

bool Sizes::IsConst() const {
  return std::all_of(begin(), end(), [](const Size& size) { return size.number().has_value(); });
}

Shape Sizes::greatest() const {
  Shape shape;
  for (const Size& size : *this) shape.push_back(size.valid() ? size.greatest() : -1);
  return shape;
}

Size Sizes::Count() const {
  Size count = 1;
  for (const Size& size : *this) {
    if (size.IsNumber(0)) return 0;
    count = count * size;
  }
  return count;
}

std::string ShapeText(const Sizes& sizes) {
  const auto text = [](std::string* out, const Size& size) { out->append(size.Text()); };
  return absl::StrCat("(", absl::StrJoin(sizes, ", ", text), sizes.size() == 1 ? ",)" : ")");
}

std::string TypeText(v1::DType dtype, const Sizes& sizes) {
  return absl::StrCat(DTypeName(dtype), " ", ShapeText(sizes));
}

}  // namespace kiln::client
