// The pages of the admin port. Tested by tests/python/metrics_test.py.
#ifndef KILN_SERVER_ADMIN_PAGES_H_
#define KILN_SERVER_ADMIN_PAGES_H_

#include <functional>
#include <vector>

#include "server/admin/admin_port.h"

namespace kiln::server {

class Engine;

// `serving`: whether calls are let in, and all that is to be there before the first has been done. `engine` outlives
// the pages.
std::vector<AdminPage> PagesOf(Engine* engine, std::function<bool()> serving);

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_PAGES_H_
