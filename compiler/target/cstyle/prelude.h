// What a text needs before its kernels: the lines its types ask for, and the
// small functions in which docs/ir.md's meaning takes more than an operator. Only what
// is used is there, each once, in an order in which each finds what it calls.
#ifndef KILN_COMPILER_TARGET_CSTYLE_PRELUDE_H_
#define KILN_COMPILER_TARGET_CSTYLE_PRELUDE_H_

#include <set>
#include <string>
#include <vector>

#include "compiler/target/cstyle/dialect.h"

namespace kiln::compiler {

// The helper functions, by what they do; each exists for some dtypes.
enum class Helper {
  kQuotient,        // CDIV, any integer
  kRemainder,       // CMOD
  kFloorQuotient,   // FLOORDIV
  kFloorRemainder,  // FLOORMOD
  kShiftLeft,       // SHL
  kShiftRight,      // SHR
  kMax,             // MAX of anything
  kFromFloat,       // an integer from a float, saturating
  kFromDouble,      // an integer from a double
  kToOdd,           // a float from an integer or a double: inexact ones end in 1
  kToBfloat,        // float32 only: a bfloat16's bits
  kFromBfloat,      // float32 only: from a bfloat16's bits
};

class Prelude {
 public:
  explicit Prelude(const Dialect& dialect) : dialect_(dialect) {}

  const Dialect& dialect() const { return dialect_; }

  // The dialect's name for the type, and a note that it is used. The dialect has
  // it: CheckTypes (lower.h) has seen to that.
  std::string Type(DType dtype);

  // The name of the helper for `dtype`, which the text will then define.
  std::string Use(Helper helper, DType dtype);

  // `variable`'s bits as `dtype`.
  std::string Bitcast(DType dtype, absl::string_view variable);

  std::string Text() const;

 private:
  std::string Define(Helper helper, DType dtype, const std::string& name);

  const Dialect& dialect_;
  std::vector<std::string> lines_;
  std::set<std::string> defined_;
  std::string functions_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_PRELUDE_H_
