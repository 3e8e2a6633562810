// Several requests of one program as one run: their rows, one after the other. compiler/batch/row_wise.h says when each
// then gets the same results as alone; StoredProgram::rows is set where that holds. Tested by batcher_test.
#ifndef KILN_SERVER_ENGINE_BATCHING_JOIN_H_
#define KILN_SERVER_ENGINE_BATCHING_JOIN_H_

#include <compare>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "server/engine/executions/requests.h"

namespace kiln::server {

// What must be the same of requests that are run as one.
struct BatchKind {
  ProgramStore::Program program;
  const Account* payer = nullptr;
  // Of all variables but the number of rows.
  std::vector<int64_t> variables;
  // What has no rows, in the order of the signature's. It stays there as long as this.
  std::vector<BufferTable::Record> shared;

  auto operator<=>(const BatchKind&) const = default;
};

// What one brings.
struct BatchPart {
  const ExecuteRequest* request = nullptr;
  int64_t rows = 0;
  uint64_t bytes = 0;  // of its inputs with rows, and of its results
  uint64_t result_bytes = 0;
  // In the order of the signature's.
  absl::InlinedVector<int64_t, 4> variables;
  absl::InlinedVector<const Argument*, 8> arguments;
};

// Nothing if it is to be run alone: it has no rows, or gives or wants them elsewhere than in its message; it reads
// memory that may change before its turn (ExecuteRequest::may_wait); or it is at fault, which running it will say.
// The part points into `request`, whose arguments by handle become the memory itself: so it is this memory, whatever
// becomes of the handles.
std::optional<std::pair<BatchKind, BatchPart>> PartOf(const ProgramStore::Program& program, ExecuteRequest& request,
                                                      const BufferTable& buffers, const Account* payer);

// Must live until its run has been answered.
struct JoinedRun {
  ExecuteRequest request;
  int64_t rows = 0;
  // Of inputs.
  std::deque<std::string> bytes;
  std::deque<std::vector<int64_t>> shapes;
};
// At least one of the kind. Their requests live until then, too.
void Join(const BatchKind& kind, absl::Span<const BatchPart* const> parts, JoinedRun& joined);

// Of the results of a joined run of `all` rows, those of `rows` from row `first` on.
absl::InlinedVector<ResultValue, 4> Share(const ProgramRows& program, absl::Span<const ResultValue> whole, int64_t all,
                                          int64_t first, int64_t rows);

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_BATCHING_JOIN_H_
