// Which accesses wait for which: of accesses to memory in program order, each waits for the
// last write of the bytes it touches and, if it writes, for all reads since.
#ifndef KILN_RUNTIME_PLAN_ACCESS_ORDER_H_
#define KILN_RUNTIME_PLAN_ACCESS_ORDER_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace kiln::runtime {

class AccessOrder {
 public:
  // Task `task` touches bytes [begin, end) of `memory`. Adds to `waits_for` the tasks
  // before it that it must wait for, some perhaps twice. Tasks come in order.
  void Access(uint64_t memory, uint64_t begin, uint64_t end, bool writes, uint32_t task,
              std::vector<uint32_t>& waits_for);

 private:
  static constexpr uint32_t kNobody = ~uint32_t{0};
  struct Bytes {
    uint64_t end;
    uint32_t writer = kNobody;
    std::vector<uint32_t> readers = {};  // since
  };
  using Memory = std::map<uint64_t, Bytes>;  // by begin, without gaps between neighbours that were touched

  // A border at `at`, if it lies inside an entry.
  static void Split(Memory& memory, uint64_t at);

  absl::flat_hash_map<uint64_t, Memory> memories_;
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_PLAN_ACCESS_ORDER_H_
