// The pages of the admin port.
#ifndef KILN_SERVER_ADMIN_PAGES_H_
#define KILN_SERVER_ADMIN_PAGES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/admin/admin_port.h"

namespace kiln::server {

class Engine;

// `serving`: whether calls are let in, and all that is to be there before the first has been done. `engine` outlives
// the pages.
std::vector<AdminPage> PagesOf(Engine* engine, std::function<bool()> serving);

// As text of HTML, also in an attribute.
std::string EscapeHtml(absl::string_view text);

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_PAGES_H_
