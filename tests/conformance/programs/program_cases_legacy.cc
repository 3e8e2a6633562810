// Programs in the spelling of 2025: INDEX with a validity mask, RANGE(start, end),
// IF, shared memory, vectors.
#include "absl/strings/str_cat.h"
#include "tests/conformance/programs/program_cases.h"

namespace kiln::testing {
namespace {

constexpr char kTwoInts[] =
    "dialect LEGACY_2025\n"
    "0 DEFINE_GLOBAL : int32 [] slot=0\n"
    "1 CONST [] weakint 4\n"
    "2 DEFINE_GLOBAL : int32 [1] slot=1\n";

ProgramCase NewStyleAccess() {
  return {"LOAD and STORE of an INDEX",
          FlatList(absl::StrCat(kTwoInts,
                                "3 SPECIAL : int32 [1] special=\"lidx0\"\n"
                                "4 INDEX : int32 [2, 3]\n"
                                "5 LOAD : int32 [4]\n"
                                "6 CONST : int32 [] 3\n"
                                "7 MUL : int32 [5, 6]\n"
                                "8 INDEX : int32 [0, 3]\n"
                                "9 STORE [8, 7]\n")),
          {{0, Int32s({0, 0, 0, 0})}, {1, Int32s({1, 2, 3, 4})}},
          {{0, Int32s({3, 6, 9, 12})}}};
}

// Neighbours left and right, padded: the mask of the INDEX is the gate.
ProgramCase MaskedIndex() {
  return {"an INDEX with a validity mask",
          FlatList(absl::StrCat(kTwoInts,
                                "3 SPECIAL : int32 [1] special=\"lidx0\"\n"
                                "4 CONST : int32 [] -1\n"
                                "5 ADD : int32 [3, 4]\n"
                                "6 CMPLT : bool [5, 4]\n"
                                "7 CONST : int32 [] 0\n"
                                "8 CMPLT : bool [4, 5]\n"
                                "9 INDEX : int32 [2, 5, 8]\n"
                                "10 LOAD : int32 [9]\n"
                                "11 CONST : int32 [] 100\n"
                                "12 LOAD : int32 [9, 11]\n"
                                "13 ADD : int32 [10, 12]\n"
                                "14 INDEX : int32 [0, 3]\n"
                                "15 STORE [14, 13]\n")),
          {{0, Int32s({0, 0, 0, 0})}, {1, Int32s({1, 2, 3, 4})}},
          {{0, Int32s({100, 2, 4, 6})}}};
}

// The order of the first documents: LOAD(buf, idx, gate, alt), STORE(buf, idx, val, gate).
ProgramCase GatesByPosition() {
  return {"gates in the old order",
          FlatList(absl::StrCat(kTwoInts,
                                "3 SPECIAL : int32 [1] special=\"lidx0\"\n"
                                "4 CONST : int32 [] 2\n"
                                "5 CMPLT : bool [3, 4]\n"
                                "6 CONST : int32 [] -5\n"
                                "7 LOAD : int32 [2, 3, 5, 6]\n"
                                "8 LOAD : int32 [2, 3, 6, 5]\n"
                                "9 ADD : int32 [7, 8]\n"
                                "10 CONST : int32 [] 3\n"
                                "11 CMPLT : bool [3, 10]\n"
                                "12 STORE [0, 3, 9, 11]\n")),
          {{0, Int32s({7, 7, 7, 7})}, {1, Int32s({1, 2, 3, 4})}},
          {{0, Int32s({2, 4, -10, 7})}}};
}

ProgramCase LoadBehindABarrier() {
  // Each item's neighbour, through shared memory: LOAD(buf, idx, barrier).
  return {"DEFINE_LOCAL, BARRIER, and a LOAD behind it",
          FlatList(absl::StrCat(kTwoInts,
                                "3 SPECIAL : int32 [1] special=\"lidx0\"\n"
                                "4 DEFINE_LOCAL : int32 [1] slot=0 name=\"temp\"\n"
                                "5 LOAD : int32 [2, 3]\n"
                                "6 STORE [4, 3, 5]\n"
                                "7 BARRIER [6]\n"
                                "8 CONST : int32 [] 1\n"
                                "9 ADD : int32 [3, 8]\n"
                                "10 CONST : int32 [] 4\n"
                                "11 MOD : int32 [9, 10]\n"
                                "12 LOAD : int32 [4, 11, 7]\n"
                                "13 STORE [0, 3, 12]\n")),
          {{0, Int32s({0, 0, 0, 0})}, {1, Int32s({1, 2, 3, 4})}},
          {{0, Int32s({2, 3, 4, 1})}}};
}

// The shared memory's size comes from its accesses.
ProgramCase SharedMemoryWithoutAShape() {
  return {"DEFINE_LOCAL without a shape; an IF by one item",
          FlatList(absl::StrCat(kTwoInts,
                                "3 SPECIAL : int32 [1] special=\"lidx0\"\n"
                                "4 DEFINE_LOCAL : int32 [] slot=0 name=\"temp\"\n"
                                "5 INDEX : int32 [2, 3]\n"
                                "6 LOAD : int32 [5]\n"
                                "7 INDEX : int32 [4, 3]\n"
                                "8 STORE [7, 6]\n"
                                "9 BARRIER [8]\n"
                                "10 CONST : int32 [] 1\n"
                                "11 CMPLT : bool [3, 10]\n"
                                "12 IF [11, 9]\n"
                                "13 CONST : int32 [] 0\n"
                                "14 CONST : int32 [] 4\n"
                                "15 RANGE : int32 [13, 14] range=(0)\n"
                                "16 DEFINE_ACC : int32 [13, 15] slot=0\n"
                                "17 INDEX : int32 [4, 15]\n"
                                "18 LOAD : int32 [17]\n"
                                "19 ADD : int32 [16, 18]\n"
                                "20 ASSIGN : int32 [16, 19]\n"
                                "21 ENDRANGE [15]\n"
                                "22 INDEX : int32 [0, 13]\n"
                                "23 STORE [22, 20]\n"
                                "24 ENDIF [12]\n")),
          {{0, Int32s({0})}, {1, Int32s({1, 20, 300, 4000})}},
          {{0, Int32s({4321})}}};
}

ProgramCase RangeFromAStart() {
  return {"RANGE(start, end)",
          FlatList("dialect LEGACY_2025\n"
                   "0 DEFINE_GLOBAL : int32 [] slot=0\n"
                   "1 CONST : int32 [] -2\n"
                   "2 CONST : int32 [] 3\n"
                   "3 RANGE : int32 [1, 2] range=(0)\n"
                   "4 CONST : int32 [] 2\n"
                   "5 ADD : int32 [3, 4]\n"
                   "6 INDEX : int32 [0, 5]\n"
                   "7 STORE [6, 3]\n"
                   "8 ENDRANGE [3]\n"),
          {{0, Int32s({9, 9, 9, 9, 9})}},
          {{0, Int32s({-2, -1, 0, 1, 2})}}};
}

// A bound that is computed, and an empty loop inside a full one.
ProgramCase Triangle() {
  return {"a loop's bound is the counter of another",
          FlatList("dialect LEGACY_2025\n"
                   "0 DEFINE_GLOBAL : int32 [] slot=0\n"
                   "1 CONST : int32 [] 0\n"
                   "2 CONST : int32 [] 4\n"
                   "3 CONST : int32 [] 1\n"
                   "4 RANGE : int32 [1, 2] range=(0)\n"
                   "5 RANGE : int32 [1, 4] range=(1)\n"
                   "6 MUL : int32 [4, 2]\n"
                   "7 ADD : int32 [6, 5]\n"
                   "8 STORE [0, 7, 3]\n"
                   "9 ENDRANGE [5]\n"
                   "10 ENDRANGE [4]\n"),
          {{0, Int32s(std::vector<int32_t>(15, 0))}},
          {{0, Int32s({0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1})}}};
}

ProgramCase Vectors() {
  // out = (a0, a1) + (10, 20), reversed, and both lanes of a scalar.
  return {"VECTORIZE, VCONST, GEP and CAT",
          FlatList("dialect LEGACY_2025\n"
                   "0 DEFINE_GLOBAL : int32 [] slot=0\n"
                   "1 DEFINE_GLOBAL : int32 [] slot=1\n"
                   "2 CONST : int32 [] 0\n"
                   "3 CONST : int32 [] 1\n"
                   "4 LOAD : int32 [1, 2]\n"
                   "5 LOAD : int32 [1, 3]\n"
                   "6 VECTORIZE : int32 [4, 5]\n"
                   "7 VCONST : int32 [] data=\"\\012\\000\\000\\000\\024\\000\\000\\000\"\n"
                   "8 ADD : int32 [6, 7]\n"
                   "9 GEP : int32 [8] axes=(1, 0)\n"
                   "10 GEP : int32 [8] axes=(0)\n"
                   "11 CAT : int32 [9, 10, 6]\n"
                   "12 STORE [0, 2, 11]\n"),
          {{0, Int32s({0, 0, 0, 0, 0})}, {1, Int32s({1, 2})}},
          {{0, Int32s({22, 11, 11, 1, 2})}}};
}

ProgramCase UnrollAndContract() {
  return {"UNROLL, and CONTRACT over the same axis",
          FlatList("dialect LEGACY_2025\n"
                   "0 DEFINE_GLOBAL : float32 [] slot=0\n"
                   "1 CONST : int32 [] 0\n"
                   "2 CONST : int32 [] 1\n"
                   "3 CONST : int32 [] 2\n"
                   "4 CONST : int32 [] 3\n"
                   "5 VECTORIZE : int32 [1, 2, 3, 4]\n"
                   "6 UNROLL : int32 [5] axes=(0, 4)\n"
                   "7 CAST : float32 [6] to=float32\n"
                   "8 MUL : float32 [7, 7]\n"
                   "9 CONTRACT : float32 [8] axes=(0, 4)\n"
                   "10 STORE [0, 1, 9]\n"),
          {{0, Float32s({-1, -1, -1, -1})}},
          {{0, Float32s({0, 1, 4, 9})}}};
}

// Names and no-operations are nothing; what they wrap runs once.
ProgramCase Nothing() {
  return {"NOOP and NAME",
          FlatList("dialect LEGACY_2025\n"
                   "0 NAME [] text=\"tester\"\n"
                   "1 DEFINE_GLOBAL : int32 [] slot=0\n"
                   "2 CONST : int32 [] 0\n"
                   "3 LOAD : int32 [1, 2]\n"
                   "4 CONST : int32 [] 1\n"
                   "5 ADD : int32 [3, 4]\n"
                   "6 STORE [1, 2, 5]\n"
                   "7 NOOP [3]\n"
                   "8 STORE [1, 4, 7]\n"),
          {{0, Int32s({41, 0})}},
          {{0, Int32s({42, 41})}}};
}

// x*y+z with MULACC; SUB, NEG and MAX of integers; a register array.
ProgramCase RegisterArray() {
  return {"DEFINE_REG, MULACC, SUB",
          FlatList("dialect LEGACY_2025\n"
                   "0 DEFINE_GLOBAL : int32 [] slot=0\n"
                   "1 CONST [] weakint 3\n"
                   "2 DEFINE_REG : int32 [1] slot=0\n"
                   "3 CONST : int32 [] 0\n"
                   "4 CONST : int32 [] 3\n"
                   "5 RANGE : int32 [3, 4] range=(0)\n"
                   "6 MULACC : int32 [5, 5, 4]\n"
                   "7 STORE [2, 5, 6]\n"
                   "8 ENDRANGE [5]\n"
                   "9 RANGE : int32 [3, 4] range=(1)\n"
                   "10 CONST : int32 [] 2\n"
                   "11 SUB : int32 [10, 9]\n"
                   "12 LOAD : int32 [2, 11]\n"
                   "13 NEG : int32 [12]\n"
                   "14 STORE [0, 9, 13]\n"
                   "15 ENDRANGE [9]\n"),
          {{0, Int32s({0, 0, 0})}},
          {{0, Int32s({-7, -4, -3})}}};
}

}  // namespace

std::vector<ProgramCase> LegacyCases() {
  return {NewStyleAccess(),    MaskedIndex(),
          GatesByPosition(),   LoadBehindABarrier(),
          RangeFromAStart(),   SharedMemoryWithoutAShape(),
          Triangle(),          Vectors(),
          UnrollAndContract(), Nothing(),
          RegisterArray()};
}

}  // namespace kiln::testing
