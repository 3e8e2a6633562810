// OptOps that must not be applied, sent in KernelInfo: each is refused with its place
// and the reason, and the kernel's node.
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/e2e/bad_input/bad_input.h"

namespace kiln::e2e {
namespace {

using absl::StatusCode;

// C[2048, 512] = A[2048, 512] * B[512, 512]; its SINK is node 17.
std::string Product(const std::string& opts) {
  return absl::StrCat(R"(
    0 CONST [] weakint 2048
    1 CONST [] weakint 512
    2 STACK [0, 1]
    3 STACK [1, 1]
    4 PARAM : float32 [2] slot=0
    5 PARAM : float32 [2] slot=1
    6 PARAM : float32 [3] slot=2
    7 RANGE [0] range=(0) type=LOOP
    8 RANGE [1] range=(1) type=LOOP
    9 RANGE [1] range=(2) type=REDUCE
    10 INDEX [5, 7, 9]
    11 INDEX [6, 9, 8]
    12 MUL [10, 11]
    13 REDUCE [12, 9] ADD axes=()
    14 INDEX [4, 7, 8]
    15 STORE [14, 13]
    16 END [15, 7, 8]
    17 SINK [16] kernel name="product" opts=()",
                      opts, ")\n");
}

std::function<absl::Status(Stubs&)> Asking(const std::string& opts, const std::string& what) {
  return [opts, what](Stubs& stubs) {
    const absl::Status status = Compile(stubs, GraphOf(Product(opts))).status();
    EXPECT_NE(status.message().find(what), absl::string_view::npos) << status;
    return status;
  };
}

TEST_F(BadInputTest, Schedules) {
  const auto bad = StatusCode::kInvalidArgument;
  const auto row = [&](const char* name, const char* opts, const char* what) {
    return Row{name, Asking(opts, what), bad, v1::BAD_ARGUMENT, 17};
  };
  // AxisTypes: 2 is LOCAL, 7 UPCAST, 8 UNROLL, 9 THREAD.
  Check({
      row("no such axis", "SPLIT 3 (2, 7)", "OptOp 0 (SPLIT of axis 3): the kernel has axes 0 to 2"),
      row("a factor that does not divide", "SWAP 0 (1), SPLIT 0 (3, 7)",
          "OptOp 1 (SPLIT of axis 0): a factor of 3; it must be a divisor of the axis's 512"),
      row("lanes of what is reduced", "SPLIT 2 (2, 7)", "a reduced axis takes UNROLL"),
      row("lanes too wide", "SPLIT 0 (2048, 7)", "lanes too wide"),
      row("too many registers", "SPLIT 1 (32, 7), SPLIT 0 (64, 7)", "OptOp 1 (SPLIT of axis 0): "),
      row("too much local memory", "LOCAL 0 (1), SPLIT 0 (2, 7), LOCAL 1 (0)",
          "OptOp 2 (LOCAL of axis 1): too much local memory: 1052672 bytes together; a kernel may have 1048576"),
      row("lanes around a copy", "SWAP 0 (1), LOCAL 0 (1), SPLIT 0 (2, 7)", "OptOp 2 (SPLIT of axis 0): a LOCAL copy"),
      row("no such operand", "LOCAL 0 (4)", "it wants (operand), from 0 to 1"),
      row("words of floats", "LOCAL 0 (2)", "operand 0 cannot be copied in words"),
      row("accumulators beyond local memory", "PADTO 1 (1024), SWAP 0 (2)", "OptOp 1 (SWAP of axis 0): too much local"),
      row("nothing to fuse with", "FUSE 1 ()", "no loop of the output inside it"),
      row("threads inside", "SPLIT 1 (0, 9)", "threads share the outermost loop"),
      row("threads first", "SPLIT 0 (0, 9), SWAP 0 (1)", "OptOp 1 (SWAP of axis 0): it stands behind THREAD"),
      row("a huge multiple", "PADTO 0 (1000000)", "a multiple of 1000000"),
      row("numbers missing", "SPLIT 0 (2)", "it wants (factor, target, top?, dimension?)"),
      Row{"tensor cores", Asking("TC 0 (0, 0, 1)", "no tensor cores"), StatusCode::kUnimplemented, v1::UNSUPPORTED_OP,
          17},
  });
}

// The same kernel with OptOps that are legal.
TEST_F(BadInputTest, GoodSchedulesAreTaken) {
  for (const char* opts : {"SPLIT 1 (16, 7), LOCAL 0 (1), SPLIT 0 (0, 9)", "FUSE 0 (), SPLIT 0 (16, 7)"})
    EXPECT_TRUE(Compile(*stubs_, GraphOf(Product(opts))).ok()) << opts;
}

}  // namespace
}  // namespace kiln::e2e
