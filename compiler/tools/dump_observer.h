// Writes every stage of a compilation to files: KILN_DUMP.
#ifndef KILN_COMPILER_TOOLS_DUMP_OBSERVER_H_
#define KILN_COMPILER_TOOLS_DUMP_OBSERVER_H_

#include <string>

#include "compiler/options/observer.h"

namespace kiln::compiler {

// Makes `directory` and writes NNN.<kernel.>pass.{uop,ll,s,txt} into it, one
// file a pass in the order they ran, and at last the object. A file that cannot be
// written is skipped.
class DumpObserver : public CompileObserver {
 public:
  explicit DumpObserver(std::string directory);
  void OnPass(const PassRecord& record) override;
  // The bytes that came of it all: NNN.object.o.
  void WriteObject(absl::string_view bytes);
  bool WantsAssembly() const override { return true; }

 private:
  const std::string directory_;
  int next_ = 0;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TOOLS_DUMP_OBSERVER_H_
