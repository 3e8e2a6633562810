// How the outside watches a compilation.
#ifndef KILN_COMPILER_OPTIONS_OBSERVER_H_
#define KILN_COMPILER_OPTIONS_OBSERVER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kiln::compiler {

// What who waits for a compilation tells apart, in order; pass/passes.cc has what happens in each. A program on several
// devices goes through all but the first once for each of its segments.
enum class CompilePart {
  kImport,    // the graph is read and checked
  kSchedule,  // which kernels there are, and where buffers lie
  kKernels,   // each kernel is lowered, and handed to the code generator
  kCode,      // machine code is made of all of them
};
inline constexpr size_t kCompileParts = 4;

// One pass, after it ran.
struct PassRecord {
  absl::string_view name;    // "rangeify"
  absl::string_view kernel;  // the kernel it ran on, empty before the split
  double micros = 0;
  size_t nodes = 0;  // UOps left in the graph
  // The graph in the numbered text form (or LLVM IR, or assembly). Costs time:
  // call it only if the text is wanted. Valid during the call alone.
  std::function<std::string()> text;
};

// Called from the compiling thread, in order. Must not throw.
class CompileObserver {
 public:
  virtual ~CompileObserver() = default;
  virtual void OnPass(const PassRecord& record) = 0;
  // A part that has ended, with success or not: a few for each program, and no two at once.
  virtual void OnPart(CompilePart part, absl::Time begin, absl::Time end) {}
  // Whether OnPass is to be called: a record counts nodes, which takes as long as a short pass does.
  virtual bool WantsRecords() const { return true; }
  // The passes whose text is read; none: of any. Where a compilation is watched from another process, the others' are
  // not made.
  virtual std::vector<std::string> texts() const { return {}; }
  // Whether to produce assembly text, which needs a second run of the code
  // generator.
  virtual bool WantsAssembly() const { return false; }
  // Whether to produce the object, which takes most of the time. Without it the Executable is
  // whole but for that, and what instructions would be selected from can be read as "llvm".
  virtual bool WantsObject() const { return true; }
  // Whether to end the compilation here, with the status CANCELLED.
  virtual bool StopAfter(absl::string_view pass) const { return false; }
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPTIONS_OBSERVER_H_
