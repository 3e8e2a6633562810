// A request and an answer of the HTTP port, as far as its service wants to know them.
#ifndef KILN_SERVER_HTTP_MESSAGE_H_
#define KILN_SERVER_HTTP_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"

namespace kiln::server {

// Header fields that are not there are empty.
struct HttpRequest {
  std::string method, target;  // as they came
  std::string peer;            // the client's address, without its port
  std::string host, origin, authorization, traceparent;
  std::string json_bytes;   // Inference-Header-Content-Length
  bool has_length = false;  // whether it said how long its body is
  std::string body;
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::optional<size_t> json_bytes;  // Inference-Header-Content-Length: the rest of the body is binary
  std::optional<uint32_t> retry_after_seconds;
  std::string allow;  // of 405: the methods that there are
};

// {"error": message}.
HttpAnswer ErrorAnswer(int status, absl::string_view message);

// What a port serves. Its functions are called on the port's threads, also on several at once, and do not block.
class HttpService {
 public:
  virtual ~HttpService() = default;

  // Why a request is not answered, by its head alone: its body is then not read.
  virtual std::optional<HttpAnswer> Refuse(const HttpRequest& head) = 0;

  // Calls `done` once, here or on any other thread; it does not block. Returns what is called, at most once and from
  // any thread, if nobody wants the answer any more: `done` is called all the same.
  using Done = absl::AnyInvocable<void(HttpAnswer)>;
  virtual std::function<void()> Answer(HttpRequest request, Done done) = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_MESSAGE_H_
