// What the HTTP port answers: a method, a path, the RPC that it stands for. Tested by routes_test.
#ifndef KILN_SERVER_HTTP_ROUTES_H_
#define KILN_SERVER_HTTP_ROUTES_H_

#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/http/message.h"

namespace kiln::server {

enum class Rpc : unsigned char {
  kServerLive,
  kServerReady,
  kServerMetadata,
  kModelReady,
  kModelMetadata,
  kModelConfig,
  kModelStatistics,
  kModelInfer,
  kRepositoryIndex,
  kRepositoryModelLoad,
  kRepositoryModelUnload,
  kSystemSharedMemoryStatus,
  kSystemSharedMemoryRegister,
  kSystemSharedMemoryUnregister,
  kCudaSharedMemoryStatus,
  kCudaSharedMemoryRegister,
  kCudaSharedMemoryUnregister,
  kTraceSetting,
  kLogSettings,
};

struct Route {
  absl::string_view method;
  // Segments; {model}, {version} and {region} stand for any one.
  absl::string_view path;
  Rpc rpc;
  bool has_body;  // which has to say how long it is
};
absl::Span<const Route> Routes();

struct Routed {
  const Route* route = nullptr;
  std::string model, version, region;  // of the path, decoded
};

// 404 for a path that is none, 405 for another method. What follows '?' does not count.
std::variant<Routed, HttpAnswer> FindRoute(absl::string_view method, absl::string_view target);

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_ROUTES_H_
