// The engine behind a port: services, health, reflection, and a gentle end.
#ifndef KILN_SERVER_RPC_SERVER_H_
#define KILN_SERVER_RPC_SERVER_H_

#include <grpcpp/grpcpp.h>
#include <spdlog/fwd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kiln/v1/config.pb.h"
#include "server/services/health.h"
#include "server/services/requests/gate.h"
#include "server/services/requests/open_calls.h"
#include "server/services/requests/request_pool.h"

namespace kiln::server {

class AdminPort;
class AnswerWatch;
class DataFolder;
class DeviceHealth;
class DeviceWatch;
class Engine;
class HttpPeers;
class HttpPort;
class Identity;
class Loader;
class ModelRepository;
class NamedRegions;
class OtlpExporter;
class Port;
class PortTls;
class ServerState;
struct Logs;
class SharedMemoryListener;

class RpcServer {
 public:
  // What must happen before the server is ready; ends soon once the flag is set.
  using Preparation = std::function<void(Engine&, const std::atomic<bool>& stop)>;

  // Serves `engine` as `config` says. UNAVAILABLE if the address cannot be had.
  // `prepare`, if there is one, runs beside the first requests: they are served, but the
  // server as a whole is NOT_SERVING to health checks until it has returned.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const v1::ServerConfig& config,
                                                          std::unique_ptr<Engine> engine,
                                                          std::shared_ptr<spdlog::logger> log,
                                                          Preparation prepare = nullptr);
  // Drains with a timeout of zero.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // The port that is served; 0 for a Unix socket.
  int port() const;
  // That of the pages for operators; 0 if there are none.
  int admin_port() const;
  // That of the open inference protocol over HTTP; 0 if there is none.
  int http_port() const;
  Engine& engine() { return *engine_; }
  // The threads that read large requests.
  RequestPool& requests() { return requests_; }

  // Opens the logs anew, and reads the file of tenants again, if there is one: what was wrong, if the one before stays
  // in force.
  absl::Status Reload();

  // The same process as a client: no socket in between.
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // Says that the server will go, and goes on serving: health checks and readiness fail from now on, so that balancers
  // send their calls elsewhere before the port is closed.
  void AnnounceEnd();

  // Whether the port accepts a connection within `patience`, and gRPC answers a call, whatever the answer is. Until
  // Drain.
  bool Answers(absl::Duration patience);

  // Ends service: health says NOT_SERVING, new requests get SHUTTING_DOWN, those
  // that run may finish within `timeout` and are cancelled then. Returns when
  // none is left; whether none had to be cancelled. Later calls do nothing.
  bool Drain(absl::Duration timeout);

 private:
  RpcServer(const v1::ServerConfig& config, std::unique_ptr<Engine> engine,
            std::unique_ptr<SharedMemoryListener> shared_memory, std::unique_ptr<NamedRegions> named_regions,
            std::unique_ptr<DataFolder> data_folder, std::unique_ptr<ModelRepository> models,
            std::unique_ptr<Logs> logs, std::unique_ptr<OpenCalls> open_calls, std::unique_ptr<Identity> identity,
            std::shared_ptr<spdlog::logger> log);

  // Has what is sampled exported, if the settings name a collector.
  absl::Status StartExport(const v1::ServerConfig& config);
  // Opens the port for HTTP, if the settings name one.
  absl::Status StartHttp(const v1::ServerConfig& config);
  // Has what comes by `builder`'s port captured.
  absl::Status StartCapture(const v1::ServerConfig& config, grpc::ServerBuilder& builder);

  const std::string listen_;
  const std::shared_ptr<spdlog::logger> log_;
  const std::unique_ptr<Engine> engine_;
  const std::unique_ptr<Logs> logs_;                           // outlives the identity, which tells of its file
  const std::unique_ptr<NamedRegions> named_regions_;          // null where it is off; outlives the identity, too
  const std::unique_ptr<const HttpPeers> http_peers_;          // null where nobody wants to know
  const std::unique_ptr<ModelRepository> models_;              // null without a folder of models; the same
  const std::unique_ptr<SharedMemoryListener> shared_memory_;  // null where it is off; the same
  const std::unique_ptr<OpenCalls> open_calls_;                // null without tenants; the same
  const std::unique_ptr<Identity> identity_;                   // null without tenants
  const std::unique_ptr<Loader> loader_;                       // null without a data folder
  std::unique_ptr<PortTls> tls_;
  const std::unique_ptr<ServerState> state_;
  Gate gate_;
  RequestPool requests_;
  std::unique_ptr<OtlpExporter> otlp_;  // null where it is off; ends before the engine
  std::unique_ptr<DeviceWatch> watch_;
  HealthService health_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<DeviceHealth> device_health_;
  std::atomic<bool> prepared_{false};
  std::atomic<bool> stop_preparing_{false};  // it drains
  std::thread preparing_;
  std::unique_ptr<Port> port_;
  int port_number_ = 0;
  std::unique_ptr<AnswerWatch> answer_watch_;  // outlives the ports that tell what it finds
  std::unique_ptr<AdminPort> admin_;           // null where it is off; answers until the end
  std::unique_ptr<HttpPort> http_;             // the same
  bool drained_ = false;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_RPC_SERVER_H_
