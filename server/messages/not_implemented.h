// What the protocol has and this server does not serve yet.
#ifndef KILN_SERVER_MESSAGES_NOT_IMPLEMENTED_H_
#define KILN_SERVER_MESSAGES_NOT_IMPLEMENTED_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace kiln::server {

// `what` is an RPC or a field of one.
inline absl::Status NotImplemented(absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NOT_IMPLEMENTED);
  detail.set_field(std::string(what));
  return MakeError(detail, absl::StrCat(what, " is part of the protocol, but this server does not serve it yet"));
}

}  // namespace kiln::server

#endif  // KILN_SERVER_MESSAGES_NOT_IMPLEMENTED_H_
