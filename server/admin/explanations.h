// How programs in memory were compiled, for pages that show it: every stage of each, for the last few that were asked
// for.
//
// A program keeps no text of its stages, so it is compiled again, on the threads that compile and in their turn; who
// asks is told to come back. One is compiled at a time, for kMaxSeconds at most, and what is kept of all together has
// kMaxBytes, so whoever reaches the port costs no more than that. Tested by tests/python/server/pages_test.py.
#ifndef KILN_SERVER_ADMIN_EXPLANATIONS_H_
#define KILN_SERVER_ADMIN_EXPLANATIONS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "server/engine/engine.h"

namespace kiln::server {

class Explanations {
 public:
  static constexpr size_t kKept = 4;
  static constexpr size_t kMaxBytes = size_t{64} << 20;
  static constexpr int kMaxSeconds = 60;

  // `engine` outlives it.
  explicit Explanations(Engine* engine);
  // Ends what is under way; does not wait for it.
  ~Explanations();

  // Of one program, without its texts where it has none to give. Shared: it stays while somebody reads.
  using Shown = std::shared_ptr<const Explanation>;

  // The explanation; null if it is being made, which this call may have begun; UNAVAILABLE while another's is made; or
  // why there is none: the compiler's errors, DEADLINE_PASSED. Errors are told once, and the next call begins anew.
  absl::StatusOr<Shown> Get(const ProgramStore::Program& program);

 private:
  struct Kept;
  Engine* const engine_;
  const std::shared_ptr<Kept> kept_;  // also the compilation's, which may end after this
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_EXPLANATIONS_H_
