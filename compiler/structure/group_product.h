// A product by a work group: a tile of A times a tile of B, by the units that GPUs have for it.
//
// In a kernel graph it is a WMMA of more than one item, whose sources are no fragments but places:
//
//   WMMA(INDEX(A, STACK(tile, offset, first, size, step, step_k, reduced, ...)),
//        INDEX(B, STACK(tile, offset, first, size, step, step_k, reduced, ...)),
//        element)                           WmmaArg{n, m, k, in, out, threads}
//
//   value = sum over i < reduced of A[offset + row * step + i * step_k] * B[offset + column * step + i * step_k],
//   row = element / n, column = element % n
//
// where A is 0 beyond its rows, first + row >= size, and B beyond its columns. `offset` and `first` depend on the
// group alone; the others are numbers, `tile` that of a row of the table of tiles. `element`, a number in the sum's
// dtype, depends on the item and on lanes: it says which elements of the tile an item holds, gives the node as many
// lanes, and makes the sum easy to evaluate. What is done with the sum afterwards is the kernel's other nodes, over the
// same lanes.
//
// A convolution is such a product: its rows are filters, its columns the places of an image, one line behind the
// other, and i counts channels and the places of a filter. Then a place moves by more than steps: it jumps where a line
// ends, or a filter's. An image's padding is what lies outside of its windows. Both follow these numbers:
//
//   jumps, (of i or of rows, every, by)...,  windows, (offset, step, step_k, size, jumps, (...)...)...
//
// The items of the group are lidx0, `threads` of them, and all of them get to the node. Which hold what depends on the
// unit: a row of the table of tiles says it. Another unit needs a row of that
// table and an emitter (Multiply in target/llvm/kernel_abi.h).
#ifndef KILN_COMPILER_STRUCTURE_GROUP_PRODUCT_H_
#define KILN_COMPILER_STRUCTURE_GROUP_PRODUCT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/ir/graph.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// d, from 0 to `size` - 1, is d * `step` rows, or columns, of a tile.
struct TileDigit {
  int64_t size;
  bool column;
  int64_t step;
};

struct MatrixTile {
  enum Unit {
    kMmaSync,  // of NVIDIA's, from sm_80 on: PTX's mma.sync
    kWgmma,    // of Hopper's: wgmma, whose operands the copy engine brings. The last 128 items have none of the sum.
    kMfma,     // of AMD's CDNA, by waves of 64
    kWmma,     // of AMD's RDNA, by waves of 32
    kFma,      // of NVIDIA's, none: fused multiply-adds of float32
  };

  const char* name;  // in schedules
  Unit unit;
  // Of a group, in one iteration of its loop: m x k of A, k x n of B, where k is of 16-bit numbers (DepthOf: of
  // others), and for kFma of float32. Together they are of one row only.
  int64_t m, n, k;
  int64_t threads;  // items of a group
  int64_t stages;   // iterations whose operands are in shared memory at once
  // Where an item's elements lie: what its number says, the lowest digit first, and what a lane adds to that, by
  // dimension. The last dimension is of neighbours in a row.
  std::vector<TileDigit> items, lanes;
};

// In the order in which they are tried. A schedule on the wire has the number of one: new ones come last.
const std::vector<MatrixTile>& MatrixTiles();

// Whether a device multiplies numbers of dtype `in` by the tile.
bool TakesTile(const v1::Target& target, const MatrixTile& tile, DType in);

// How many numbers of dtype `in` an iteration takes along k: as many bytes, whatever they are.
int64_t DepthOf(const MatrixTile& tile, DType in);
// What products of them are added up in.
DType SumOf(DType in);

// Its place in MatrixTiles(), of the one so called.
std::optional<int64_t> TileNamed(absl::string_view name);

// A place is n / every * by farther, where n is i; or else the row of all rows, first + row.
struct Jump {
  bool reduced;
  int64_t every, by;
  bool operator==(const Jump&) const = default;
};

struct GroupProduct {
  // Of a side, the elements are 0 for which this number, made as its places are, is not from 0 to size - 1.
  struct Window {
    UOp* offset;  // as a side's
    int64_t step, step_k, size;
    std::vector<Jump> jumps;
  };
  struct Side {
    const UOp* param;
    UOp *offset, *first;
    int64_t size, step, step_k;
    std::vector<Jump> jumps = {};
    std::vector<Window> windows = {};

    // Whether places move by steps alone, and none of them is outside of a window.
    bool IsPlain() const { return jumps.empty() && windows.empty(); }
  };
  const MatrixTile* tile;
  DType in;
  int64_t reduced;
  Side a, b;
};

// What `uop` says, if it is a product by a work group.
std::optional<GroupProduct> GroupProductOf(const UOp* uop);
bool HasGroupProduct(UOp* root);

// `storage`: A and B. `element`: an int64.
UOp* MakeGroupProduct(Graph& graph, const GroupProduct& product, std::array<UOp*, 2> storage, UOp* element);

// How far the jumps lead, up to row `row` of all rows and to i.
int64_t JumpsTo(const std::vector<Jump>& jumps, int64_t row, int64_t i);

// Whether elements that follow each other along i are nearer in memory than those of neighbouring rows.
bool LiesAlongK(const GroupProduct::Side& side);

// How many elements of a side, neighbours in memory, begin at a multiple of themselves wherever a group and its loop
// begin: a power of 2 up to `max_run`, if the storage does; and 1 if no two elements that are read are neighbours. All
// of them are in the windows, or none is.
int64_t NeighboursOf(const GroupProduct::Side& side, int64_t max_run = 8);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_GROUP_PRODUCT_H_
