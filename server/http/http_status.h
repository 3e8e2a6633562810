// Failures as answers of HTTP. Tested by http_status_test.
#ifndef KILN_SERVER_HTTP_HTTP_STATUS_H_
#define KILN_SERVER_HTTP_HTTP_STATUS_H_

#include "absl/status/status.h"
#include "server/http/message.h"

namespace kiln::server {

// Of a failure: its text, the number that belongs to its code, and when to come again, where its detail says so.
HttpAnswer AnswerOf(const absl::Status& status);

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_HTTP_STATUS_H_
