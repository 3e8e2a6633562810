// The pages of the admin port. Tested by tests/python/server/metrics_test.py and tests/python/server/pages_test.py.
#ifndef KILN_SERVER_ADMIN_PAGES_H_
#define KILN_SERVER_ADMIN_PAGES_H_

#include <functional>
#include <vector>

#include "server/admin/admin_port.h"

namespace kiln::server {

class Engine;
class ModelRepository;
class ServerState;

struct PagesOptions {
  // Whether calls are let in, and all that is to be there before the first has been done.
  std::function<bool()> serving;
  // Whether the port has not been answering for a while.
  std::function<bool()> dead;
  // Whether what programs compute is shown, too, beside how much they take.
  bool shows_programs = false;
  // Whose use is counted, too; null where none are served.
  const ModelRepository* models = nullptr;
};

// What is pointed to outlives the pages.
std::vector<AdminPage> PagesOf(Engine* engine, const ServerState* state, PagesOptions options);

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_PAGES_H_
