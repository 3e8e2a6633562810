// Products that the items of a wave compute together, a WMMA by more than one item: which there are, and where each
// item holds which elements. As the vendors' manuals draw them, so that a wave's instruction takes them as they are.
#ifndef KILN_COMPILER_SPEC_WMMA_LAYOUT_H_
#define KILN_COMPILER_SPEC_WMMA_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ir/uop.h"

namespace kiln::compiler {

struct Place {
  int64_t row, column;
};

// One digit of a number, times something: n / divide % modulo * times.
struct Digit {
  int64_t divide = 1, modulo = 1, times = 0;
  int64_t Of(int64_t n) const { return n / divide % modulo * times; }
};

// A row or a column: what an item's number in its wave says of it, and what an element's number does.
struct PlaceRule {
  Digit item, low, high;
  int64_t OfElement(int64_t i) const { return low.Of(i) + high.Of(i); }
};

// One operand's elements.
struct Fragment {
  int64_t elements;  // that each item holds
  PlaceRule row, column;
  Place At(int64_t item, int64_t i) const {
    return {row.item.Of(item) + row.OfElement(i), column.item.Of(item) + column.OfElement(i)};
  }
};

struct WmmaLayout {
  Fragment a, b, c;
};

// None if no wave does such a product.
std::optional<WmmaLayout> LayoutOf(const WmmaArg& arg);

// All there are, for people.
std::string WmmaShapes();

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SPEC_WMMA_LAYOUT_H_
