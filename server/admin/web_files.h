// The files of server/admin/web/, in the program. Their source is written by embed.py as the program is built. Tested
// by tests/python/server/pages_test.py.
#ifndef KILN_SERVER_ADMIN_WEB_FILES_H_
#define KILN_SERVER_ADMIN_WEB_FILES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln::server {

struct WebFile {
  absl::string_view path;  // "lib/view.js"
  absl::string_view body;
};

// By path.
absl::Span<const WebFile> WebFiles();

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_WEB_FILES_H_
