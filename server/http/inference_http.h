// The open inference protocol over HTTP: each request becomes a call of GRPCInferenceService in this process, so that
// who asks, what they may, how much, and whose turn it is, is decided where it is for everybody
// (server/services/admission.h).
//
// Tested by tests/e2e/serving/http_test.py.
#ifndef KILN_SERVER_HTTP_INFERENCE_HTTP_H_
#define KILN_SERVER_HTTP_INFERENCE_HTTP_H_

#include <grpcpp/channel.h>

#include <memory>

#include "server/http/message.h"
#include "server/services/requests/request_pool.h"

namespace kiln::server {

class HttpPeers;

struct InferenceHttpOptions {
  // Whether requests have to name the port by an address or by localhost: where nothing else keeps out a page of a
  // stranger's that a browser on this machine has open, and whose name leads here.
  bool local_names_only = false;
  // By which calls say for whom they are; outlives the service. Null: they do not.
  const HttpPeers* peers = nullptr;
};

// `server` is the way into this process; `requests`, whose threads convert large messages, outlives what is returned.
std::unique_ptr<HttpService> MakeInferenceHttp(std::shared_ptr<grpc::Channel> server, RequestPool* requests,
                                               InferenceHttpOptions options);

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_INFERENCE_HTTP_H_
