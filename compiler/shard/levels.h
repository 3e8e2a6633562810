// At which level each value of the shares' graph is computed, and which values cross
// to later ones (segments.h says what a level is).
#ifndef KILN_COMPILER_SHARD_LEVELS_H_
#define KILN_COMPILER_SHARD_LEVELS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "compiler/ir/graph.h"
#include "compiler/shard/shares.h"

namespace kiln::compiler {

class Levels {
 public:
  // `shares` outlives it.
  explicit Levels(const Shares& shares);

  // Gives every STORE a level. UNSUPPORTED_SHARD where none would do; `graph` locates it.
  absl::Status Settle(const Graph& graph);

  // Whether the program needs it.
  bool Reaches(const UOp* uop) const { return infos_.contains(uop); }
  // The first level at which it can be computed; there a value that IsComputed is, once,
  // and all else is made wherever it is read.
  int Of(const UOp* uop) const { return infos_.at(uop).level; }
  bool IsComputed(const UOp* uop) const { return infos_.at(uop).computed; }
  // A PARAM that a transfer writes.
  bool IsTransferred(const UOp* uop) const { return transfer_of_.contains(uop); }
  // Null for what is made of constants, variables and device numbers alone: it is made
  // again wherever it is read.
  const std::string* DevicesOf(const UOp* uop) const { return infos_.at(uop).devices; }
  // The storage or computed value whose memory holds `value` as it is; null for a view
  // that no memory is.
  UOp* MemoryOf(const UOp* value) const { return infos_.at(value).memory; }

  // Computed values that later levels or transfers read.
  const std::vector<UOp*>& crossing() const { return crossing_; }

 private:
  struct Info {
    const std::string* devices = nullptr;
    int level = 0;
    int floor = 0;        // of a STORE
    int last = -1;        // at which it is read for its value
    int address = -1;     // at which it is, for the place that it names
    bool poison = false;  // may be Invalid somewhere
    bool computed = false;
    bool crosses = false;
    UOp* memory = nullptr;   // MemoryOf
    UOp* storage = nullptr;  // of an AFTER: what it shows
    size_t state = 0;        // and after how many of that one's STOREs
  };

  void Order();
  void Place();
  void FindNames(UOp* uop, Info& info);
  void FindLevels();
  void FindReads();
  void Read(UOp* uop, int level);
  // Whether a STORE must come later.
  bool RaiseFloors();

  const Shares& shares_;
  absl::flat_hash_map<const UOp*, const Transfer*> transfer_of_;  // by target
  // By storage and what stores to it.
  absl::flat_hash_map<std::pair<const UOp*, const UOp*>, size_t> state_after_;
  std::vector<UOp*> order_;  // what the program needs, sources first
  absl::flat_hash_map<const UOp*, Info> infos_;
  std::vector<UOp*> crossing_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SHARD_LEVELS_H_
