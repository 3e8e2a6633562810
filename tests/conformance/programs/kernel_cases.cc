// Graphs of one kernel, as a frontend sends them before it has put anything in
// order, and as the older documents draw them.
#include "base/check.h"
#include "base/graph/graph_text.h"
#include "tests/conformance/programs/program_cases.h"

namespace kiln::testing {
namespace {

v1::Graph Read(const std::string& text) {
  auto graph = ParseGraph(text);
  KILN_CHECK(graph.ok());
  return *std::move(graph);
}

// c[i, j] = sum over k of a[i, k] * b[k, j], with INDEXes that are read as they are.
ProgramCase Matmul() {
  std::vector<float> a, b, c(6, 0);
  for (int i = 0; i < 8; ++i) a.push_back(static_cast<float>(i - 3));
  for (int i = 0; i < 12; ++i) b.push_back(static_cast<float>(i) / 2);
  for (int i = 0; i < 6; ++i) {
    for (int k = 0; k < 4; ++k) c[i] += a[i / 3 * 4 + k] * b[k * 3 + i % 3];
  }
  ProgramCase test{"a matrix product over RANGEs",
                   Read("0 CONST [] weakint 2\n"
                        "1 CONST [] weakint 3\n"
                        "2 CONST [] weakint 4\n"
                        "3 STACK [0, 1]\n"
                        "4 STACK [0, 2]\n"
                        "5 STACK [2, 1]\n"
                        "6 PARAM : float32 [3] slot=0\n"
                        "7 PARAM : float32 [4] slot=1\n"
                        "8 PARAM : float32 [5] slot=2\n"
                        "9 RANGE : weakint [0] range=(0) type=GLOBAL\n"
                        "10 RANGE : weakint [1] range=(1) type=GLOBAL\n"
                        "11 RANGE : weakint [2] range=(2) type=REDUCE\n"
                        "12 INDEX [7, 9, 11]\n"
                        "13 INDEX [8, 11, 10]\n"
                        "14 MUL [12, 13]\n"
                        "15 REDUCE [14, 11] ADD axes=()\n"
                        "16 INDEX [6, 9, 10]\n"
                        "17 STORE [16, 15]\n"
                        "18 END [17, 9, 10]\n"
                        "19 SINK [18] kernel name=\"matmul\"\n"),
                   {{0, Float32s(c)}, {1, Float32s(a)}, {2, Float32s(b)}},
                   {{0, Float32s(c)}}};
  test.arguments[0].bytes.assign(test.arguments[0].bytes.size(), 'x');
  return test;
}

// out[i] = in[i - 1] where there is one, by WHERE(gate, index, Invalid).
ProgramCase GatedIndex() {
  return {"an index that is Invalid at the edge",
          Read("0 CONST [] weakint 4\n"
               "1 PARAM : int32 [0] slot=0\n"
               "2 PARAM : int32 [0] slot=1\n"
               "3 RANGE [0] range=(0) type=LOOP\n"
               "4 CONST [] weakint -1\n"
               "5 ADD [3, 4]\n"
               "6 CMPLT [4, 5]\n"
               "7 CONST [] int64 invalid\n"
               "8 WHERE [6, 5, 7]\n"
               "9 INDEX [2, 8]\n"
               "10 CONST [] int32 10\n"
               "11 ADD [9, 10]\n"
               "12 INDEX [1, 3]\n"
               "13 STORE [12, 11]\n"
               "14 END [13, 3]\n"
               "15 SINK [14]\n"),
          {{0, Int32s({0, 0, 0, 0})}, {1, Int32s({1, 2, 3, 4})}},
          {{0, Int32s({10, 11, 12, 13})}}};
}

// Each row less its greatest element: a reduction whose value is used in a second
// loop over the same axis.
ProgramCase RowsLessTheirGreatest() {
  return {"a reduction used in a loop of its own",
          Read("0 CONST [] weakint 2\n"
               "1 CONST [] weakint 3\n"
               "2 STACK [0, 1]\n"
               "3 PARAM : int32 [2] slot=0\n"
               "4 PARAM : int32 [2] slot=1\n"
               "5 RANGE [0] range=(0) type=LOOP\n"
               "6 RANGE [1] range=(1) type=LOOP\n"
               "7 RANGE [1] range=(2) type=REDUCE\n"
               "8 INDEX [4, 5, 7]\n"
               "9 REDUCE [8, 7] MAX axes=()\n"
               "10 INDEX [4, 5, 6]\n"
               "11 SUB [10, 9]\n"
               "12 INDEX [3, 5, 6]\n"
               "13 STORE [12, 11]\n"
               "14 END [13, 5, 6]\n"
               "15 SINK [14]\n"),
          {{0, Int32s({9, 9, 9, 9, 9, 9})}, {1, Int32s({1, 5, 2, -7, -9, -8})}},
          {{0, Int32s({-4, 0, -3, 0, -2, -1})}}};
}

// A kernel of the user's own: SPECIALs, shared memory, and a BARRIER between.
ProgramCase ReversedByAGroup() {
  return {"shared memory between a STORE and a LOAD",
          Read("0 CONST [] weakint 4\n"
               "1 PARAM : int32 [0] slot=0\n"
               "2 SPECIAL [0] special=\"lidx0\"\n"
               "3 BUFFER : int32 [0] slot=0 space=LOCAL\n"
               "4 INDEX [1, 2]\n"
               "5 LOAD [4]\n"
               "6 INDEX [3, 2]\n"
               "7 STORE [6, 5]\n"
               "8 BARRIER [7]\n"
               "9 AFTER [3, 8]\n"
               "10 CONST [] int64 3\n"
               "11 SUB [10, 2]\n"
               "12 INDEX [9, 11]\n"
               "13 LOAD [12]\n"
               "14 STORE [4, 13]\n"
               "15 SINK [14] kernel name=\"reverse\"\n"),
          {{0, Int32s({1, 2, 3, 4})}},
          {{0, Int32s({4, 3, 2, 1})}}};
}

// SINK(STORE(..., ASSIGN(DEFINE_ACC, ...))) of the older documents.
ProgramCase DrawnAccumulator() {
  return {"ASSIGN to a DEFINE_ACC, undone by nothing but its RANGE",
          Read("dialect LEGACY_2025\n"
               "0 DEFINE_GLOBAL : int32 [] slot=0\n"
               "1 DEFINE_GLOBAL : int32 [] slot=1\n"
               "2 CONST : int32 [] 0\n"
               "3 CONST : int32 [] 4\n"
               "4 RANGE : int32 [2, 3] range=(0)\n"
               "5 DEFINE_ACC : int32 [2, 4] slot=0\n"
               "6 INDEX : int32 [1, 4]\n"
               "7 LOAD : int32 [6]\n"
               "8 ADD : int32 [5, 7]\n"
               "9 ASSIGN : int32 [5, 8]\n"
               "10 INDEX : int32 [0, 2]\n"
               "11 STORE [10, 9]\n"
               "12 SINK [11]\n"),
          {{0, Int32s({-1})}, {1, Int32s({1, 20, 300, 4000})}},
          {{0, Int32s({4321})}}};
}

// A STORE in loops that nothing closes.
ProgramCase OpenLoops() {
  return {"a STORE over RANGEs, without END",
          Read("0 CONST [] weakint 3\n"
               "1 PARAM : int32 [0] slot=0\n"
               "2 RANGE [0] range=(0) type=LOOP\n"
               "3 INDEX [1, 2]\n"
               "4 CAST [2] to=int32\n"
               "5 MUL [4, 4]\n"
               "6 STORE [3, 5]\n"
               "7 SINK [6]\n"),
          {{0, Int32s({7, 7, 7})}},
          {{0, Int32s({0, 1, 4})}}};
}

}  // namespace

std::vector<ProgramCase> KernelCases() {
  std::vector<ProgramCase> cases = {Matmul(),           GatedIndex(),       RowsLessTheirGreatest(),
                                    ReversedByAGroup(), DrawnAccumulator(), OpenLoops()};
  // Two axes where the text has two.
  for (uint32_t slot = 0; slot < 3; ++slot) {
    static const compiler::Shape kShapes[] = {{2, 3}, {2, 4}, {4, 3}};
    cases[0].arguments[slot].shape = kShapes[slot];
    if (slot < 2) cases[2].arguments[slot].shape = {2, 3};
  }
  cases[0].expected[0].shape = {2, 3};
  cases[2].expected[0].shape = {2, 3};
  return cases;
}

}  // namespace kiln::testing
