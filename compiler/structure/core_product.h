// A product of two tiles by the matrix unit of a CPU's core, which has tiles for registers: x86's AMX.
//
// In a kernel graph it is a WMMA by one item, whose sources are places of words of 32 bits. A word holds as many terms
// as fit: two bfloat16, or four bytes.
//
//   WMMA(INDEX(A, STACK(first, step)), INDEX(B, STACK(first, step, is_signed)), sum)     WmmaArg{n, m, k, in, out}
//
//   value[row][column] = sum[row][column] + sum over w < words, t < terms of A[row][w][t] * B[w][column][t]
//
// where row `row` of A begins at element first + row * step of its storage, and its words follow each other; word 0 of
// row w of B is element first + w * step of a storage of words. m and n are rows and columns, k is words * terms, and
// `in` is what A's terms are. `first` depends on loops alone. `sum` has m rows of n lanes, which may be cut into
// vectors of equally many lanes. Tested by compiler/kernel/tiles/core_products_test.
#ifndef KILN_COMPILER_STRUCTURE_CORE_PRODUCT_H_
#define KILN_COMPILER_STRUCTURE_CORE_PRODUCT_H_

#include <cstdint>
#include <optional>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Intel SDM, "Intel AMX": palette 1.
inline constexpr int64_t kTileRows = 16, kTileWords = 16, kTileRegisters = 8;
inline constexpr int64_t kMostTilesOfSum = 6;  // FitsTiles

// A feature that is no processor's: what a matrix unit would do is done by loops over its tiles in memory. Tests run so
// what no machine at hand could.
inline constexpr char kMatrixUnitByLoops[] = "+kiln-matrix-unit-by-loops";

struct CoreProduct {
  struct Side {
    UOp* storage;
    UOp* first;
    int64_t step;
    DType dtype;  // of its terms
  };
  Side a, b;
  int64_t rows, columns, words;

  int64_t terms() const { return 4 / ItemSize(a.dtype); }
  // Registers that its sum takes: down, and across.
  int64_t down() const { return (rows + kTileRows - 1) / kTileRows; }
  int64_t across() const { return columns / kTileWords; }
  // Rows of the i-th of them downwards.
  int64_t RowsOf(int64_t i) const { return i + 1 < down() ? kTileRows : rows - i * kTileRows; }
};

// Whether a sum of so many registers, and what it takes to add to it, are in registers at once.
constexpr bool FitsTiles(int64_t down, int64_t across) { return down * across + down + 1 <= kTileRegisters; }

// What `uop` says, if it is one.
std::optional<CoreProduct> CoreProductOf(const UOp* uop);

UOp* MakeCoreProduct(Graph& graph, const CoreProduct& product, UOp* sum);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_CORE_PRODUCT_H_
