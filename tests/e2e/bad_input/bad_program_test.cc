// Programs written by hand that break a rule: each is refused with the node, and
// the server goes on.
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/e2e/bad_input/bad_input.h"

namespace kiln::e2e {
namespace {

using absl::StatusCode;

// 1: four int32; 3: a place in them; 4: this item's number, of four.
constexpr char kHead[] =
    "0 CONST [] weakint 4\n"
    "1 PARAM : int32 [0] slot=0\n"
    "2 CONST [] int32 0\n"
    "3 INDEX [1, 2]\n"
    "4 SPECIAL [0] special=\"lidx0\"\n";

std::function<absl::Status(Stubs&)> Compiling(const std::string& rest) {
  return [rest](Stubs& stubs) { return Compile(stubs, GraphOf(absl::StrCat(kHead, rest))).status(); };
}

TEST_F(BadInputTest, Programs) {
  const auto bad = StatusCode::kInvalidArgument;
  const auto unbuilt = StatusCode::kUnimplemented;
  const auto large = StatusCode::kResourceExhausted;
  const auto none = std::nullopt;
  Check({
      {"client code", Compiling("5 CUSTOM [2] text=\"asm\"\n6 LINEAR [5]\n"), StatusCode::kPermissionDenied,
       v1::NOT_ALLOWED, 5},
      {"client source", Compiling("5 SOURCE [] text=\"int main\"\n"), StatusCode::kPermissionDenied, v1::NOT_ALLOWED,
       5},
      {"storage without a size",
       Compiling("5 DEFINE_GLOBAL : int32 [] slot=1\n6 LOAD [3]\n7 LOAD [5, 6]\n8 LINEAR "
                 "[3, 6, 7]\n"),
       bad, v1::BAD_ARGUMENT, 5},
      {"a mask in arithmetic", Compiling("5 CONST [] bool true\n6 INDEX [1, 2, 5]\n7 ADD [6, 2]\n8 LINEAR [7]\n"),
       unbuilt, v1::UNSUPPORTED_OP, 7},
      {"not listed", Compiling("5 LOAD [3]\n6 STORE [3, 5]\n7 LINEAR [3, 6]\n"), bad, v1::BAD_ARGUMENT, 6},
      {"of a closed loop",
       Compiling("5 RANGE [0] range=(0)\n6 LOAD [3]\n7 GROUP []\n8 END [7, 5]\n9 STORE [3, 6]\n10 LINEAR [5, 3, 6, "
                 "8, 9]\n"),
       bad, v1::BAD_ARGUMENT, 9},
      {"crossed loops",
       Compiling("5 RANGE [0] range=(0)\n6 RANGE [0] range=(1)\n7 GROUP []\n8 END [7, 5]\n9 END [7, 6]\n10 LINEAR "
                 "[5, 6, 8, 9]\n"),
       bad, v1::BAD_ARGUMENT, 8},
      {"never closed", Compiling("5 CONST [] bool true\n6 IF [5]\n7 LINEAR [6]\n"), bad, v1::BAD_ARGUMENT, 6},
      {"a BARRIER for some",
       Compiling("5 CONST [] int64 2\n6 CMPLT [4, 5]\n7 IF [6]\n8 BARRIER []\n9 ENDIF [7]\n10 LINEAR [4, 6, 7, 8, "
                 "9]\n"),
       bad, v1::BAD_ARGUMENT, 8},
      {"a pointer as a value", Compiling("5 ADD [3, 2]\n6 LINEAR [3, 5]\n"), bad, v1::BAD_ARGUMENT, 5},
      {"too few indices", Compiling("5 STACK [0, 0]\n6 PARAM : int32 [5] slot=1\n7 INDEX [6, 2]\n8 LINEAR [7]\n"), bad,
       v1::SHAPE_MISMATCH, 7},
      {"an unknown coordinate", Compiling("5 SPECIAL [0] special=\"warp0\"\n6 LINEAR [5]\n"), bad, v1::BAD_ARGUMENT, 5},
      {"a reduction", Compiling("5 STACK [2, 2]\n6 REDUCE [5] ADD axes=(0)\n7 LINEAR [5, 6]\n"), unbuilt,
       v1::UNSUPPORTED_OP, 6},
      {"a WMMA of no such size",
       Compiling("5 CONST [] float32 1.0\n6 STACK [5, 5]\n7 WMMA [6, 6, 6] wmma=(8, 8, 4) in=float32 out=float32 "
                 "threads=32\n8 LINEAR [6, 7]\n"),
       unbuilt, v1::UNSUPPORTED_OP, 7},
      {"too many items",
       Compiling("5 CONST [] weakint 33\n6 SPECIAL [5] special=\"lidx1\"\n7 SPECIAL [5] special=\"lidx2\"\n8 LINEAR "
                 "[6, 7]\n"),
       large, v1::GRAPH_TOO_LARGE, none, none, 0, "items of a group"},
      {"too much shared memory",
       Compiling("5 CONST [] weakint 16385\n6 BUFFER : int32 [5] slot=0 space=LOCAL\n7 INDEX [6, 2]\n8 LINEAR [7]\n"),
       large, v1::GRAPH_TOO_LARGE, none, none, 0, "bytes of LOCAL storage"},
      {"too many registers",
       Compiling("5 CONST [] weakint 4097\n6 BUFFER : int32 [5] slot=0 space=REG\n7 INDEX [6, 2]\n8 LINEAR [7]\n"),
       large, v1::GRAPH_TOO_LARGE, none, none, 0, "bytes of REG storage"},
      {"too much work",
       Compiling("5 LOAD [3]\n6 RANGE [5] range=(0)\n7 RANGE [5] range=(1)\n8 GROUP []\n9 END [8, 7]\n10 END [8, "
                 "6]\n11 LINEAR [3, 5, 6, 7, 9, 10]\n"),
       large, v1::GRAPH_TOO_LARGE, none, none, 0, "operations"},
  });
}

}  // namespace
}  // namespace kiln::e2e
