// What the pages of server/admin/web/ ask for, as JSON of the protocol's messages, with the names of their .proto
// files. Tested by tests/python/server/pages_test.py.
//
//   /api/state?rows=&history=              StateResponse; of each list `rows`, or 100; so many seconds of history
//   /api/calls                             StateResponse with what ended last in the place of slow calls, latest first
//   /api/cache                             ListProgramsResponse without programs
//   /api/program?hash=&device=&tenant=     ExplainResponse without texts; 202 while it is made
//   /api/program?…&stage=                  ExplainResponse.Stage
//
// What is wrong is an object with the text "error", and a status to match.
#ifndef KILN_SERVER_ADMIN_API_H_
#define KILN_SERVER_ADMIN_API_H_

#include <vector>

#include "server/admin/admin_port.h"

namespace kiln::server {

class Engine;
class ServerState;

// `shows_programs`: whether what programs compute is shown, too. What is pointed to outlives the pages.
std::vector<AdminPage> ApiPages(Engine* engine, const ServerState* state, bool shows_programs);

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_API_H_
