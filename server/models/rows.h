// Requests for one model as one run: their rows, one after the other. compiler/batch/row_wise.h says when that changes
// nobody's numbers; ServedModel::rows is set where it holds.
#ifndef KILN_SERVER_MODELS_ROWS_H_
#define KILN_SERVER_MODELS_ROWS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/executions/requests.h"
#include "server/models/served_model.h"

namespace kiln::server {

// The variable by which requests may be run as one, if there is such, and which outputs have rows; by what the compiler
// says of the program.
void FindRows(ServedModel& model);

// Of a request that ToRun() has made for a model with rows: how many it has.
int64_t RowsOf(const ServedModel& model, const ExecuteRequest& request);
// The bytes of its inputs.
uint64_t InputBytesOf(const ExecuteRequest& request);
// What must be the same of requests that become one: the values of the other variables.
std::vector<int64_t> KindOf(const ServedModel& model, const ExecuteRequest& request);

// Several requests of one kind as one. Must live until its run has been answered.
struct JoinedRun {
  ExecuteRequest request;
  // Of inputs.
  std::deque<std::string> bytes;
  std::deque<std::vector<int64_t>> shapes;
};
// `requests` live until then, too; at least one.
void Join(const ServedModel& model, absl::Span<const ExecuteRequest* const> requests, JoinedRun& joined);

// The part of `whole`, a result of a joined run of `all` rows, of the request whose rows begin at row `first`. Its
// charge is empty.
ExecuteResult PartOf(const ServedModel& model, const ExecuteResult& whole, int64_t all, int64_t first, int64_t rows);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_ROWS_H_
