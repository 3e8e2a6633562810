// What a target adds to the compiler: machine code for linearized kernels.
#ifndef KILN_COMPILER_TARGET_TARGET_H_
#define KILN_COMPILER_TARGET_TARGET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/uop.h"
#include "compiler/options.h"
#include "compiler/rules/native_ops.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// Generates code for the kernels of one program. Used by one thread.
class CodeGenerator {
 public:
  virtual ~CodeGenerator() = default;
  // The ops that AddKernel takes beside those that every target has.
  virtual NativeOps native_ops() const { return {}; }
  // `linear`: a kernel as Linearize leaves it. `symbol`: the function's name.
  virtual absl::Status AddKernel(const UOp* linear, const std::string& symbol) = 0;
  // The kernels so far as text, for people: LLVM IR, or nothing.
  virtual std::string Source() = 0;
  virtual std::string Assembly() = 0;
  // The object with all kernels. Last call but for the destructor.
  virtual absl::StatusOr<std::string> Object() = 0;
};

// UNSUPPORTED_OP for a target that is not built in.
absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeCodeGenerator(const v1::Target& target, const Options& options);

// One for each target; see targets.cc.
absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeNullCodeGenerator(const v1::Target& target, const Options& options);
absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeCpuCodeGenerator(const v1::Target& target, const Options& options);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_TARGET_H_
