// The programs of the first documents, node by node as they write them.
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/conformance/programs/program_cases.h"

namespace kiln::testing {
namespace {

constexpr char kThreeInts[] =
    "dialect LEGACY_2025\n"
    "0 DEFINE_GLOBAL : int32 [] slot=0 name=\"data0\"\n"
    "1 DEFINE_GLOBAL : int32 [] slot=1 name=\"data1\"\n"
    "2 DEFINE_GLOBAL : int32 [] slot=2 name=\"data2\"\n";

ProgramCase StoreAConstant() {
  return {"a constant is stored",
          FlatList("dialect LEGACY_2025\n"
                   "0 DEFINE_GLOBAL : int32 [] slot=0 name=\"data0\"\n"
                   "1 CONST : int32 [] 0\n"
                   "2 CONST : int32 [] 10\n"
                   "3 STORE [0, 1, 2]\n"),
          {{0, Int32s({-1})}},
          {{0, Int32s({10})}}};
}

ProgramCase Loop() {
  std::vector<int32_t> want;
  for (int i = 0; i < 10; ++i) want.push_back(i);
  return {"a loop stores its counter",
          FlatList("dialect LEGACY_2025\n"
                   "0 DEFINE_GLOBAL : int32 [] slot=0 name=\"data0\"\n"
                   "1 CONST : int32 [] 0\n"
                   "2 CONST : int32 [] 10\n"
                   "3 LOOP : int32 [1, 2]\n"
                   "4 STORE [0, 3, 3]\n"
                   "5 ENDLOOP [3]\n"),
          {{0, Int32s(std::vector<int32_t>(10, -1))}},
          {{0, Int32s(want)}}};
}

// Two loops of the same bounds are two loops, one inside the other.
ProgramCase NestedLoops() {
  std::vector<int32_t> want;
  for (int i = 0; i < 9; ++i) want.push_back(i / 3 * 10 + i % 3);
  return {"loops of equal bounds nest",
          FlatList("dialect LEGACY_2025\n"
                   "0 DEFINE_GLOBAL : int32 [] slot=0 name=\"data0\"\n"
                   "1 CONST : int32 [] 0\n"
                   "2 CONST : int32 [] 3\n"
                   "3 CONST : int32 [] 10\n"
                   "4 LOOP : int32 [1, 2]\n"
                   "5 LOOP : int32 [1, 2]\n"
                   "6 MUL : int32 [4, 2]\n"
                   "7 ADD : int32 [6, 5]\n"
                   "8 MUL : int32 [4, 3]\n"
                   "9 ADD : int32 [8, 5]\n"
                   "10 STORE [0, 7, 9]\n"
                   "11 ENDLOOP [5]\n"
                   "12 ENDLOOP [4]\n"),
          {{0, Int32s(std::vector<int32_t>(9, -1))}},
          {{0, Int32s(want)}}};
}

ProgramCase AddFirstElements() {
  return {"the first elements are added",
          FlatList(absl::StrCat(kThreeInts,
                                "3 CONST : int32 [] 0\n"
                                "4 LOAD : int32 [1, 3]\n"
                                "5 LOAD : int32 [2, 3]\n"
                                "6 ADD : int32 [4, 5]\n"
                                "7 STORE [0, 3, 6]\n")),
          {{0, Int32s({0})}, {1, Int32s({1})}, {2, Int32s({2})}},
          {{0, Int32s({3})}}};
}

// Ten groups that all store to place 0, as the document has it: of equal sums.
ProgramCase AddByGroupToOnePlace() {
  const std::vector<int32_t> fives(10, 5), sevens(10, 7);
  return {"gidx0 loads, place 0 stores",
          FlatList(absl::StrCat(kThreeInts,
                                "3 CONST [] weakint 10\n"
                                "4 SPECIAL : int32 [3] special=\"gidx0\"\n"
                                "5 LOAD : int32 [1, 4]\n"
                                "6 LOAD : int32 [2, 4]\n"
                                "7 ADD : int32 [5, 6]\n"
                                "8 CONST : int32 [] 0\n"
                                "9 STORE [0, 8, 7]\n")),
          {{0, Int32s({0})}, {1, Int32s(fives)}, {2, Int32s(sevens)}},
          {{0, Int32s({12})}}};
}

ProgramCase AddBy(const std::string& coordinate, int n) {
  std::vector<int32_t> a, b, sum;
  for (int i = 0; i < n; ++i) {
    a.push_back(i * i);
    b.push_back(100 - i);
    sum.push_back(a.back() + b.back());
  }
  return {absl::StrCat("arrays are added by ", coordinate),
          FlatList(absl::StrCat(kThreeInts, "3 CONST [] weakint ", n, "\n4 SPECIAL : int32 [3] special=\"", coordinate,
                                "\"\n"
                                "5 LOAD : int32 [1, 4]\n"
                                "6 LOAD : int32 [2, 4]\n"
                                "7 ADD : int32 [5, 6]\n"
                                "8 STORE [0, 4, 7]\n")),
          {{0, Int32s(std::vector<int32_t>(n, 0))}, {1, Int32s(a)}, {2, Int32s(b)}},
          {{0, Int32s(sum)}}};
}

ProgramCase CastTheSum() {
  return {"the sum is cast to float",
          FlatList("dialect LEGACY_2025\n"
                   "0 DEFINE_GLOBAL : float32 [] slot=0 name=\"data0\"\n"
                   "1 DEFINE_GLOBAL : int32 [] slot=1 name=\"data1\"\n"
                   "2 DEFINE_GLOBAL : int32 [] slot=2 name=\"data2\"\n"
                   "3 CONST [] weakint 2\n"
                   "4 SPECIAL : int32 [3] special=\"lidx0\"\n"
                   "5 LOAD : int32 [1, 4]\n"
                   "6 LOAD : int32 [2, 4]\n"
                   "7 ADD : int32 [5, 6]\n"
                   "8 CAST : float32 [7] to=float32\n"
                   "9 STORE [0, 4, 8]\n"),
          {{0, Float32s({0, 0})}, {1, Int32s({1, 3})}, {2, Int32s({4, 3})}},
          {{0, Float32s({5, 6})}}};
}

// data0 = sum of data1, with the accumulator where the documents' linearizer puts
// it: before its loop, or, listed in order of its sources, behind it.
ProgramCase Accumulate(bool listed_first) {
  const std::string text =
      "dialect LEGACY_2025\n"
      "0 DEFINE_GLOBAL : float32 [] slot=0 name=\"data0\"\n"
      "1 DEFINE_GLOBAL : float32 [] slot=1 name=\"data1\"\n"
      "2 CONST : int32 [] 0\n"
      "3 CONST : int32 [] 6\n"
      "4 CONST : float32 [] 0.0\n"
      "5 LOOP : int32 [2, 3]\n"
      "6 DEFINE_ACC : float32 [4, 5] slot=0\n"
      "7 LOAD : float32 [1, 5]\n"
      "8 ADD : float32 [7, 6]\n"
      "9 ASSIGN : float32 [6, 8]\n"
      "10 ENDLOOP [5]\n"
      "11 STORE [0, 2, 9]\n";
  v1::Graph graph = FlatList(text);
  if (listed_first) {
    v1::UOp* list = graph.mutable_nodes(graph.nodes_size() - 1);
    list->set_src(5, 6);
    list->set_src(6, 5);
  }
  return {listed_first ? "an accumulator before its loop" : "an accumulator listed in its loop",
          graph,
          {{0, Float32s({-1})}, {1, Float32s({1, 2, 3, 4, 5, 6.5f})}},
          {{0, Float32s({21.5f})}}};
}

// Row sums: the accumulator starts anew in every iteration of the outer loop.
ProgramCase RowSums() {
  return {"an accumulator starts anew for every row",
          FlatList("dialect LEGACY_2025\n"
                   "0 DEFINE_GLOBAL : int32 [] slot=0 name=\"data0\"\n"
                   "1 DEFINE_GLOBAL : int32 [] slot=1 name=\"data1\"\n"
                   "2 CONST : int32 [] 0\n"
                   "3 CONST : int32 [] 3\n"
                   "4 CONST : int32 [] 4\n"
                   "5 LOOP : int32 [2, 3]\n"
                   "6 LOOP : int32 [2, 4]\n"
                   "7 DEFINE_ACC : int32 [2, 6] slot=0\n"
                   "8 MUL : int32 [5, 4]\n"
                   "9 ADD : int32 [8, 6]\n"
                   "10 LOAD : int32 [1, 9]\n"
                   "11 ADD : int32 [7, 10]\n"
                   "12 ASSIGN : int32 [7, 11]\n"
                   "13 ENDLOOP [6]\n"
                   "14 STORE [0, 5, 12]\n"
                   "15 ENDLOOP [5]\n"),
          {{0, Int32s({0, 0, 0})}, {1, Int32s({1, 2, 3, 4, 10, 20, 30, 40, 5, 5, 5, 5})}},
          {{0, Int32s({10, 100, 20})}}};
}

// One of the documents' ALU ops on float32, for each of four items.
struct FloatOp {
  const char* op;
  int operands;
  std::function<float(float, float)> value;
  int64_t ulp = 0;
};

ProgramCase Alu(const FloatOp& row) {
  const std::vector<float> a = {0.5f, 2.25f, 3.0f, 7.5f}, b = {1.5f, 2.25f, 0.25f, 8.0f};
  std::vector<float> want;
  for (int i = 0; i < 4; ++i) want.push_back(row.value(a[i], b[i]));
  return {absl::StrCat("ALU ", row.op),
          FlatList(absl::StrCat("dialect LEGACY_2025\n"
                                "0 DEFINE_GLOBAL : float32 [] slot=0 name=\"data0\"\n"
                                "1 DEFINE_GLOBAL : float32 [] slot=1 name=\"data1\"\n"
                                "2 DEFINE_GLOBAL : float32 [] slot=2 name=\"data2\"\n"
                                "3 CONST [] weakint 4\n"
                                "4 SPECIAL : int32 [3] special=\"lidx0\"\n"
                                "5 LOAD : float32 [1, 4]\n"
                                "6 LOAD : float32 [2, 4]\n"
                                "7 ",
                                row.op, row.operands == 1 ? " [5]\n" : " [5, 6]\n",
                                "8 CAST : float32 [7] to=float32\n"
                                "9 STORE [0, 4, 8]\n")),
          {{0, Float32s({0, 0, 0, 0})}, {1, Float32s(a)}, {2, Float32s(b)}},
          {{0, Float32s(want)}},
          {row.ulp, true}};
}

// IDIV and MOD truncate in these documents.
ProgramCase IntegerDivision() {
  return {"IDIV and MOD truncate",
          FlatList(absl::StrCat(kThreeInts,
                                "3 CONST [] weakint 4\n"
                                "4 SPECIAL : int32 [3] special=\"lidx0\"\n"
                                "5 LOAD : int32 [1, 4]\n"
                                "6 LOAD : int32 [2, 4]\n"
                                "7 IDIV : int32 [5, 6]\n"
                                "8 MOD : int32 [5, 6]\n"
                                "9 CONST : int32 [] 100\n"
                                "10 MUL : int32 [7, 9]\n"
                                "11 ADD : int32 [10, 8]\n"
                                "12 STORE [0, 4, 11]\n")),
          {{0, Int32s({0, 0, 0, 0})}, {1, Int32s({-7, 7, -7, 7})}, {2, Int32s({2, -2, 0, 2})}},
          {{0, Int32s({-301, -299, -7, 301})}}};
}

ProgramCase Choose() {
  return {"WHERE over CMPLT and CMPEQ",
          FlatList(absl::StrCat(kThreeInts,
                                "3 CONST [] weakint 3\n"
                                "4 SPECIAL : int32 [3] special=\"lidx0\"\n"
                                "5 LOAD : int32 [1, 4]\n"
                                "6 LOAD : int32 [2, 4]\n"
                                "7 CMPLT : bool [5, 6]\n"
                                "8 CMPEQ : bool [5, 6]\n"
                                "9 CONST : int32 [] -1\n"
                                "10 WHERE : int32 [7, 5, 6]\n"
                                "11 WHERE : int32 [8, 9, 10]\n"
                                "12 STORE [0, 4, 11]\n")),
          {{0, Int32s({0, 0, 0})}, {1, Int32s({1, 5, 9})}, {2, Int32s({3, 5, 7})}},
          {{0, Int32s({1, -1, 7})}}};
}

}  // namespace

std::vector<ProgramCase> OldestCases() {
  std::vector<ProgramCase> cases = {StoreAConstant(),       Loop(),
                                    NestedLoops(),          AddFirstElements(),
                                    AddByGroupToOnePlace(), AddBy("gidx0", 10),
                                    AddBy("lidx0", 2),      AddBy("idx0", 33),
                                    CastTheSum(),           Accumulate(true),
                                    Accumulate(false),      RowSums(),
                                    IntegerDivision(),      Choose()};
  const FloatOp rows[] = {
      {"NEG", 1, [](float a, float) { return -a; }},
      {"SQRT", 1, [](float a, float) { return std::sqrt(a); }},
      {"EXP2", 1, [](float a, float) { return static_cast<float>(std::exp2(double{a})); }, 2},
      {"LOG2", 1, [](float a, float) { return static_cast<float>(std::log2(double{a})); }, 2},
      {"SIN", 1, [](float a, float) { return static_cast<float>(std::sin(double{a})); }, 2},
      {"RECIPROCAL", 1, [](float a, float) { return 1 / a; }},
      {"ADD", 2, [](float a, float b) { return a + b; }},
      {"SUB", 2, [](float a, float b) { return a - b; }},
      {"MUL", 2, [](float a, float b) { return a * b; }},
      {"FDIV", 2, [](float a, float b) { return a / b; }},
      {"MAX", 2, [](float a, float b) { return a > b ? a : b; }},
      {"CMPLT", 2, [](float a, float b) { return a < b ? 1.0f : 0.0f; }},
      {"CMPEQ", 2, [](float a, float b) { return a == b ? 1.0f : 0.0f; }},
      {"CMPNE", 2, [](float a, float b) { return a != b ? 1.0f : 0.0f; }},
      {"POW", 2, [](float a, float b) { return static_cast<float>(std::pow(double{a}, double{b})); }, 4},
  };
  for (const FloatOp& row : rows) cases.push_back(Alu(row));
  return cases;
}

}  // namespace kiln::testing
