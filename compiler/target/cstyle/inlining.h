// Which values of a linear program get a name in its text, and which are written
// where they are used.
#ifndef KILN_COMPILER_TARGET_CSTYLE_INLINING_H_
#define KILN_COMPILER_TARGET_CSTYLE_INLINING_H_

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

// The sources that `uop`'s text has; the others only say what comes before it.
absl::Span<UOp* const> PrintedSources(const UOp* uop);

// Whether `uop` is a statement of its own: it changes something, or opens or
// closes a scope.
bool IsStatement(const UOp* uop);

class Inlining {
 public:
  explicit Inlining(const UOp* linear);

  // How often the text of `uop`'s value appears; 0 if nothing uses it.
  int Uses(const UOp* uop) const;
  // A value used once, and whose operands still have at its use the values they
  // have where it is listed.
  bool IsInlined(const UOp* uop) const { return inlined_.contains(uop); }
  // A value with a name of its own, which nothing gives another value.
  bool IsStable(const UOp* uop) const;
  // Listed several times: later users see the newest value.
  bool IsRelisted(const UOp* uop) const { return relisted_.contains(uop); }
  // Whether `uop`'s text names something that a later listing may change.
  bool IsPassing(const UOp* uop) const { return passing_.contains(uop); }

 private:
  void CountUses(const UOp* linear);
  void FindPassing(const UOp* linear);
  void InlineRegisters(const UOp* linear);

  absl::flat_hash_map<const UOp*, int> uses_;
  absl::flat_hash_set<const UOp*> relisted_, passing_, inlined_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_INLINING_H_
