// What a target adds to the compiler: machine code for linearized kernels.
#ifndef KILN_COMPILER_TARGET_TARGET_H_
#define KILN_COMPILER_TARGET_TARGET_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options/options.h"
#include "compiler/rules/transcendental/native_ops.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// What a target can do, for the passes before it.
struct Abilities {
  bool lanes = true;        // values of many lanes, from loops that are lanes
  bool work_items = false;  // SPECIAL: parallel loops are work items
  bool text = false;        // what is made is read by people, and by another compiler
};

// Generates code for the kernels of one program. Used by one thread.
class CodeGenerator {
 public:
  virtual ~CodeGenerator() = default;
  // The ops that AddKernel takes beside those that every target has.
  virtual NativeOps native_ops() const { return {}; }
  virtual Abilities abilities() const { return {}; }
  // `linear`, a kernel as Linearize leaves it, in what the target has words for.
  // UNSUPPORTED_OP, with the node, where it has none.
  virtual absl::StatusOr<UOp*> Select(Graph&, UOp* linear) { return linear; }
  // `linear`: a kernel as Select leaves it. `symbol`: the function's name, an identifier.
  virtual absl::Status AddKernel(UOp* linear, const std::string& symbol) = 0;
  // Over how many work items a device runs `linear`, which AddKernel or AddProgram takes; of targets
  // that have none of them, nothing. GRAPH_TOO_LARGE if they are more than the device takes.
  virtual absl::StatusOr<v1::Launch> LaunchOf(const UOp*) { return v1::Launch(); }
  // Whether a function of a text may be called so.
  virtual bool MayDefine(absl::string_view) const { return true; }
  // -- Programs written by hand
  // Whether AddProgram takes such a WMMA by a warp (program/wmma.h) as an instruction.
  virtual bool HasWmma(const WmmaArg&) const { return false; }
  // `linear`, whose accesses are inside their storage, and whose arithmetic stands
  // in no list (program/program_values.h), over values that the target has.
  virtual absl::StatusOr<UOp*> SelectValues(Graph&, UOp* linear) { return linear; }
  // `linear`, whose order is fixed, as AddProgram takes it. `program` is what it was
  // made from. UNSUPPORTED_OP, with the node, for what the target cannot express.
  virtual absl::StatusOr<UOp*> SelectListed(Graph&, UOp* linear, UOp* program) { return linear; }
  // `linear`: a program as SelectListed leaves it.
  virtual absl::Status AddProgram(UOp* linear, const std::string& symbol) { return AddKernel(linear, symbol); }
  // What Source can show, in the order in which one is made of the other: stages are called so.
  virtual std::vector<absl::string_view> languages() const { return {"llvm"}; }
  // The kernels so far as text in one of its languages. "llvm" is LLVM's IR as instructions are selected from it, or
  // nothing.
  virtual std::string Source(absl::string_view language) = 0;
  virtual std::string Assembly() = 0;
  // The object with all kernels. Last call but for the destructor.
  virtual absl::StatusOr<std::string> Object() = 0;
};

// UNSUPPORTED_OP for a target that is not built in.
absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeCodeGenerator(const v1::Target& target, const Options& options);

// One for each target; see targets.cc.
absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeNullCodeGenerator(const v1::Target& target, const Options& options);
absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeCpuCodeGenerator(const v1::Target& target, const Options& options);
absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeGpuCodeGenerator(const v1::Target& target, const Options& options);
absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeSourceCodeGenerator(const v1::Target& target,
                                                                       const Options& options);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_TARGET_H_
