// OUT_OF_MEMORY for what a client would make the server keep beyond a limit.
#ifndef KILN_SERVER_ENGINE_MEMORY_OVER_LIMIT_H_
#define KILN_SERVER_ENGINE_MEMORY_OVER_LIMIT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace kiln::server {

// `limit` names what there is too much of, of which at most `limit_value` is kept, and `used`
// would be. `field` is what the client said that asks for it, if one thing does.
inline absl::Status OverLimit(absl::string_view limit, uint64_t limit_value, uint64_t used, absl::string_view message,
                              absl::string_view field = "") {
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_field(std::string(field));
  detail.set_limit(std::string(limit));
  detail.set_limit_value(limit_value);
  detail.set_used(used);
  return MakeError(detail, message);
}

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_MEMORY_OVER_LIMIT_H_
