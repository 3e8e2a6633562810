// Which values an instruction of a list sees.
//
// The instructions of a LINEAR stand in order, and RANGE … END and IF … ENDIF
// enclose some of them, as braces do. A node may be listed more than once: each
// listing runs it again. A user of it sees the newest listing that is not inside
// an enclosure that has closed since.
#ifndef KILN_COMPILER_STRUCTURE_PROGRAM_SCOPES_H_
#define KILN_COMPILER_STRUCTURE_PROGRAM_SCOPES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

class ProgramScopes {
 public:
  // `opener` is the RANGE or IF, listed by the caller after this.
  void Open(UOp* opener) { scopes_.push_back({opener, {}}); }
  // Closes the innermost enclosure; there must be one.
  void Close();

  // The openers of what is open, outermost first.
  std::vector<UOp*> open() const;
  size_t depth() const { return scopes_.size(); }
  UOp* innermost() const { return scopes_.empty() ? nullptr : scopes_.back().opener; }

  // Whether the ranges of END `end` are the innermost enclosures, in any order.
  bool Closes(const UOp* end) const;

  void List(const UOp* uop, uint32_t position);
  // Where the listing is that a user here sees.
  std::optional<uint32_t> Find(const UOp* uop) const;
  // Whether it was listed at all, even where it is not seen from here.
  bool WasListed(const UOp* uop) const { return listed_.contains(uop); }

 private:
  struct Scope {
    UOp* opener;
    std::vector<const UOp*> listed;
  };
  std::vector<Scope> scopes_;
  absl::flat_hash_map<const UOp*, std::vector<uint32_t>> listed_;  // where it is seen, newest last
};

// What of a node's sources must have a value when it runs: the first `n`. The
// others only say what comes before it.
size_t ValueSources(const UOp* uop);

// Constants, storage, shapes and mere groups: they may stand in a list or not,
// and do nothing there.
bool NeedsNoListing(const UOp* uop);

// Memory that a program knows by its address: a PARAM or a BUFFER, or what is in
// it. An INDEX or SHRINK of it is a pointer.
bool IsMemory(const UOp* uop);
// Whether SHRINK `uop` may leave what it is a part of: only pointers may.
bool MayLeaveItsSource(const UOp* uop);
// Whether it is a PARAM or BUFFER, or an AFTER of one: all of a storage.
bool IsBareStorage(const UOp* uop);
// The PARAM or BUFFER under a pointer or an AFTER; nullptr if there is none.
UOp* StorageUnder(UOp* uop);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_PROGRAM_SCOPES_H_
