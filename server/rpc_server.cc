#include "server/rpc_server.h"

#include <grpcpp/resource_quota.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/error.h"
#include "compiler/options/version.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "runtime/drivers/cpu/machine.h"
#include "server/admin/admin_port.h"
#include "server/admin/pages.h"
#include "server/build_id.h"
#include "server/capture/capture.h"
#include "server/config.h"
#include "server/device_health.h"
#include "server/engine/engine.h"
#include "server/files/loader.h"
#include "server/http/http_port.h"
#include "server/http/inference_http.h"
#include "server/identity/identity.h"
#include "server/in_force.h"
#include "server/logs/logs.h"
#include "server/models/folder.h"
#include "server/models/load.h"
#include "server/models/repository.h"
#include "server/otlp/exporter.h"
#include "server/port/local_peer.h"
#include "server/port/port.h"
#include "server/port/sockets.h"
#include "server/port/unix_users.h"
#include "server/process/answer_watch.h"
#include "server/services/device_watch.h"
#include "server/services/env.h"
#include "server/services/rpcs.h"
#include "server/shared_memory/listener.h"
#include "server/shared_memory/named_regions.h"
#include "server/state/state.h"
#include "server/stream/command.h"
#include "server/tls.h"

namespace kiln::server {
namespace {

// A client whose machine is gone says nothing, and an upload of its holds memory
// until the stream ends: pings find out, however little there is to send.
void KeepAlive(uint32_t seconds, grpc::ServerBuilder& builder) {
  const int millis = seconds == 0 ? INT_MAX : static_cast<int>(seconds) * 1000;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, millis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, millis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit
}

// How long a connection may take to say how it is encrypted, or that it speaks HTTP/2.
constexpr int kHandshakeMillis = 20'000;

// What strangers may have gRPC keep before a call of theirs is let in: of a request it keeps the message, of a stream
// that says nothing some kilobytes. Beyond the quota gRPC ends calls, with RESOURCE_EXHAUSTED.
void Bound(const v1::ServerConfig::ConnectionLimits& limits, grpc::ServerBuilder& builder) {
  constexpr uint64_t kLeast = uint64_t{2} << 30;
  const uint64_t bytes =
      limits.max_bytes() == 0 ? std::max(runtime::cpu::UsableMemoryBytes() / 8, kLeast) : limits.max_bytes();
  builder.SetResourceQuota(grpc::ResourceQuota("connections").Resize(bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(std::min<uint32_t>(limits.max_streams(), INT_MAX)));
}

// A message is bounded as it comes; what a small compressed one becomes would not be. gRPC
// answers it UNIMPLEMENTED, naming the algorithm.
void RefuseCompressed(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
}

Connections::Limits LimitsOf(const v1::ServerConfig& config) {
  const size_t possible = MaxConnections(), wanted = config.connection_limits().max_connections();
  const size_t all = wanted == 0 ? possible : std::min(possible, wanted);
  const size_t of_address = config.connection_limits().max_per_address();
  return {all, of_address == 0 ? (all + 1) / 2 : of_address};
}

ServerState::Options StateOptions(const v1::ServerConfig& config, const Logs& logs) {
  return {.slow_after = absl::Milliseconds(config.slow_request_ms()),
          .audit_lost = [&logs] { return logs.audit_lost(); },
          .access_lost = [&logs] { return logs.access_lost(); }};
}

absl::StatusOr<std::unique_ptr<ModelRepository>> OpenModels(const v1::ServerConfig& config, Engine& engine,
                                                            std::shared_ptr<spdlog::logger> log) {
  ModelRepository::Options options;
  options.folder = config.models();
  options.load.device = config.models_device();
  KILN_ASSIGN_OR_RETURN(options.load.sizes, ParseModelSizes(config.model_sizes()));
  options.load.max_bytes = config.model_limits().max_bytes();
  KILN_ASSIGN_OR_RETURN(options.versions, ParseVersionPolicy(config.model_versions()));
  options.max_models = config.model_limits().max_models();
  options.max_time = absl::Seconds(config.model_limits().max_seconds());
  // Both are mistakes of whoever starts the server, who is told now.
  KILN_RETURN_IF_ERROR(engine.FindDevice(options.load.device).status());
  KILN_RETURN_IF_ERROR(ScanFolder(options.folder).status());
  return std::make_unique<ModelRepository>(std::move(options), &engine, std::move(log));
}

// The address to be reached by, with the port that was had in the place of port 0.
std::string Advertised(absl::string_view address, int port) {
  return absl::ConsumeSuffix(&address, ":0") ? absl::StrCat(address, ":", port) : std::string(address);
}

// How long a client may take to take what it was answered last.
constexpr absl::Duration kFarewell = absl::Seconds(1);

// A connection that ends is an error that says nothing. So the gate goes on refusing in our own words until the
// clients have heard: nobody asked for a while.
void LingerUntilQuiet(const Gate& gate) {
  constexpr absl::Duration kQuiet = absl::Milliseconds(50);
  constexpr int kRounds = 20;
  uint64_t refused = gate.refused();
  for (int i = 0; i < kRounds; ++i) {
    absl::SleepFor(kQuiet);
    if (std::exchange(refused, gate.refused()) == gate.refused()) return;
  }
}

}  // namespace

RpcServer::RpcServer(const v1::ServerConfig& config, std::unique_ptr<Engine> engine,
                     std::unique_ptr<SharedMemoryListener> shared_memory, std::unique_ptr<NamedRegions> named_regions,
                     std::unique_ptr<DataFolder> data_folder, std::unique_ptr<ModelRepository> models,
                     std::unique_ptr<Logs> logs, std::unique_ptr<OpenCalls> open_calls,
                     std::unique_ptr<Identity> identity, std::shared_ptr<spdlog::logger> log)
    : listen_(config.listen()),
      log_(std::move(log)),
      engine_(std::move(engine)),
      logs_(std::move(logs)),
      named_regions_(std::move(named_regions)),
      http_peers_(config.shared_memory().named_loopback() || !config.tenants().empty()
                      ? std::make_unique<const HttpPeers>()
                      : nullptr),
      models_(std::move(models)),
      shared_memory_(std::move(shared_memory)),
      open_calls_(std::move(open_calls)),
      identity_(std::move(identity)),
      loader_(data_folder == nullptr ? nullptr : std::make_unique<Loader>(std::move(data_folder), &engine_->buffers())),
      state_(std::make_unique<ServerState>(StateOptions(config, *logs_), engine_.get())),
      requests_(std::max(std::thread::hardware_concurrency(), 1u)) {
  watch_ = std::make_unique<DeviceWatch>(*engine_, gate_);
  services_ = MakeServices(
      {*engine_, gate_, requests_, *log_, shared_memory_.get(), loader_.get(), watch_.get(), identity_.get(),
       state_.get(), logs_.get(), models_.get(), named_regions_.get(), http_peers_.get(), open_calls_.get()},
      !config.no_reflection());
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const v1::ServerConfig& config,
                                                            std::unique_ptr<Engine> engine,
                                                            std::shared_ptr<spdlog::logger> log, Preparation prepare) {
  std::unique_ptr<SharedMemoryListener> shared_memory;
  if (const v1::ServerConfig::SharedMemory& shared = config.shared_memory(); shared.max_bytes() != 0) {
    KILN_ASSIGN_OR_RETURN(shared_memory, SharedMemoryListener::Open(shared.socket(), shared.max_bytes()));
    log->info("event=shared_memory socket={} max_bytes={}", shared_memory->path(), shared.max_bytes());
  }
  std::unique_ptr<NamedRegions> named_regions;
  if (const v1::ServerConfig::SharedMemory& shared = config.shared_memory(); shared.named_max_bytes() != 0) {
    KILN_ASSIGN_OR_RETURN(named_regions, NamedRegions::Open({.max_bytes = shared.named_max_bytes(),
                                                             .loopback = shared.named_loopback()}));
    log->info("event=named_shared_memory max_bytes={} loopback={}", shared.named_max_bytes(), shared.named_loopback());
  }
  std::unique_ptr<DataFolder> data_folder;
  if (!config.data_folder().empty()) {
    KILN_ASSIGN_OR_RETURN(data_folder, DataFolder::Open(config.data_folder()));
  }
  std::unique_ptr<ModelRepository> models;
  if (!config.models().empty()) {
    KILN_ASSIGN_OR_RETURN(models, OpenModels(config, *engine, log));
    // The server is ready when they are.
    prepare = [models = models.get(), also = std::move(prepare)](Engine& all, const std::atomic<bool>& stop) {
      if (also != nullptr) also(all, stop);
      models->WaitUntilReady();
    };
  }
  KILN_ASSIGN_OR_RETURN(Logs opened, Logs::Open(config));
  auto logs = std::make_unique<Logs>(std::move(opened));
  std::unique_ptr<OpenCalls> open_calls;
  std::unique_ptr<Identity> identity;
  if (!config.tenants().empty()) {
    open_calls = std::make_unique<OpenCalls>();
    const InForce in_force{engine.get(),        logs.get(),   open_calls.get(), shared_memory.get(),
                           named_regions.get(), models.get(), SharesOf(config)};
    KILN_ASSIGN_OR_RETURN(identity, Identity::Open(config.tenants(), log, absl::Seconds(1), HooksOf(in_force)));
  }
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<PortTls> tls, PortTls::Open(config, log));
  const std::shared_ptr<grpc::ServerCredentials> credentials = tls->credentials();
  std::unique_ptr<RpcServer> self(new RpcServer(
      config, std::move(engine), std::move(shared_memory), std::move(named_regions), std::move(data_folder),
      std::move(models), std::move(logs), std::move(open_calls), std::move(identity), std::move(log)));
  self->tls_ = std::move(tls);
  KILN_RETURN_IF_ERROR(self->StartExport(config));
  grpc::ServerBuilder builder;
  KILN_ASSIGN_OR_RETURN(const SocketAccess access, ParseSocketAccess(config.listen_mode(), config.listen_group()));
  KILN_ASSIGN_OR_RETURN(self->port_, Port::Open(config.listen(), LimitsOf(config), self->log_, access));
  self->port_number_ = self->port_->port();
  self->engine_->sessions().SetAddress(Advertised(config.advertise(), self->port_number_));
  const std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  std::shared_ptr<UnixUsers> users;
  const bool wants_users = self->identity_ != nullptr || self->named_regions_ != nullptr;
  if (wants_users && config.tls().certificate().empty() && absl::StartsWith(config.listen(), "unix")) {
    users = std::make_shared<UnixUsers>(builder);
  }
  for (const auto& service : self->services_) builder.RegisterService(service.get());
  builder.RegisterService(&self->health_.service());
  builder.SetMaxReceiveMessageSize(static_cast<int>(LargestMessage(config)));
  RefuseCompressed(builder);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMillis);
  KeepAlive(config.keepalive_seconds(), builder);
  Bound(config.connection_limits(), builder);
  if (!config.capture().empty()) KILN_RETURN_IF_ERROR(self->StartCapture(config, builder));
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr) return absl::UnavailableError("gRPC cannot serve");
  if (self->models_ != nullptr) self->models_->Start();
  if (prepare != nullptr) {
    // Nobody has been told the port yet.
    self->health_.SetServingStatus("", false);
    self->preparing_ = std::thread([self = self.get(), prepare = std::move(prepare)] {
      prepare(*self->engine_, self->stop_preparing_);
      // Once the server drains, it stays NOT_SERVING.
      self->health_.SetServingStatus("", true);
      self->prepared_.store(true);
    });
  } else {
    self->prepared_.store(true);
  }
  self->port_->Start([acceptor, users, identity = self->identity_.get()](int listener, int connection) {
    if (const auto user = users == nullptr ? std::nullopt : PeerUser(connection);
        user.has_value() && (identity == nullptr || identity->HasUnixUser(*user)) &&
        users->HandOver(listener, connection, *user)) {
      return;
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    acceptor->HandleNewConnection(&parameters);
  });
  self->device_health_ = std::make_unique<DeviceHealth>(self->engine_->devices(), self->health_, self->log_);
  self->answer_watch_ = std::make_unique<AnswerWatch>(
      [self = self.get()](absl::Duration patience) { return self->Answers(patience); },
      [log = self->log_](bool dead) { dead ? log->error("event=dead") : log->info("event=alive_again"); });
  if (!config.admin_listen().empty()) {
    PagesOptions pages;
    pages.dead = [self = self.get()] { return self->answer_watch_->dead(); };
    pages.serving = [self = self.get()] { return self->prepared_.load() && !self->gate_.announced(); };
    // Elsewhere the operator has let in what counts; what tenants compute is more.
    pages.shows_programs = IsLoopback(config.admin_listen());
    pages.models = self->models_.get();
    KILN_ASSIGN_OR_RETURN(
        self->admin_,
        AdminPort::Open(config.admin_listen(), PagesOf(self->engine_.get(), self->state_.get(), std::move(pages)),
                        absl::StrSplit(config.admin_names(), ',', absl::SkipWhitespace())));
    self->log_->info("event=admin listen={} port={}", config.admin_listen(), self->admin_->port());
  }
  KILN_RETURN_IF_ERROR(self->StartHttp(config));
  return self;
}

absl::Status RpcServer::StartExport(const v1::ServerConfig& config) {
  const auto environment = [](const char* name) -> const char* { return std::getenv(name); };
  KILN_ASSIGN_OR_RETURN(const OtlpSettings settings,
                        OtlpSettingsOf(config, absl::StrCat(compiler::kCompilerVersion, "+", BuildId()), environment));
  if (settings.url.empty()) return absl::OkStatus();
  SpanNames names;
  names.rpc = [](uint16_t method) {
    const RpcRow& row = RpcRows()[method];
    return SpanNames::Rpc{row.package, row.service, row.name};
  };
  names.command = CommandName;
  names.tenant = [&accounts = engine_->accounts()](uint32_t owner) { return OwnerName(accounts, owner); };
  const auto backlog = std::make_shared<Backlog>(&engine_->metrics());
  engine_->traces().SetSink(backlog, settings.sample_ratio);
  otlp_ = std::make_unique<OtlpExporter>(settings, backlog, std::move(names), &engine_->metrics(), log_);
  log_->info("event=otlp sample_ratio={}", settings.sample_ratio);
  return absl::OkStatus();
}

absl::Status RpcServer::StartHttp(const v1::ServerConfig& config) {
  if (config.http_listen().empty()) return absl::OkStatus();
  HttpPortOptions options;
  options.listen = config.http_listen();
  options.connections = LimitsOf(config);
  options.max_body_bytes = LargestMessage(config);
  options.max_bytes = std::max(options.max_bytes, 2 * options.max_body_bytes);
  // Tenants show a token, which no page of a stranger's has; elsewhere the operator has let in who may ask.
  const InferenceHttpOptions inference = {.local_names_only = identity_ == nullptr && IsLoopback(config.http_listen()),
                                          .peers = http_peers_.get()};
  KILN_ASSIGN_OR_RETURN(http_,
                        HttpPort::Open(options, MakeInferenceHttp(InProcessChannel(), &requests_, inference), log_));
  log_->info("event=http listen={} port={}", config.http_listen(), http_->port());
  return absl::OkStatus();
}

absl::Status RpcServer::StartCapture(const v1::ServerConfig& config, grpc::ServerBuilder& builder) {
  v1::CaptureHeader header;
  header.set_server(BuildId());
  for (const auto& device : engine_->devices()) {
    v1::CaptureDevice& row = *header.add_devices();
    row.set_name(std::string(device->name()));
    row.set_description(std::string(device->description()));
  }
  KILN_ASSIGN_OR_RETURN(auto capture, Capture::Create(config.capture(), {config.capture_max_bytes()}, header, log_));
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> taps;
  // Who is not known is served nothing, so there is nothing of it to play.
  const auto caller = [identity = identity_.get()](const grpc::ServerContextBase& context) {
    if (identity == nullptr) return std::make_optional(context.peer());
    const auto identified = Identify(*identity, context, absl::Now());
    return identified.ok() ? std::make_optional(identified->tenant->name) : std::nullopt;
  };
  taps.push_back(CaptureCalls(std::move(capture), caller));
  builder.experimental().SetInterceptorCreators(std::move(taps));
  return absl::OkStatus();
}

RpcServer::~RpcServer() { Drain(absl::ZeroDuration()); }

absl::Status RpcServer::Reload() {
  logs_->Reopen();
  return identity_ == nullptr ? absl::OkStatus() : identity_->Reload();
}

int RpcServer::port() const { return port_number_; }
int RpcServer::admin_port() const { return admin_ == nullptr ? 0 : admin_->port(); }
int RpcServer::http_port() const { return http_ == nullptr ? 0 : http_->port(); }

std::shared_ptr<grpc::Channel> RpcServer::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return server_->InProcessChannel(arguments);
}

void RpcServer::AnnounceEnd() {
  gate_.AnnounceClosing();
  health_.Shutdown();  // of the whole and of each device, whatever is said of them later
}

bool RpcServer::Answers(absl::Duration patience) {
  const absl::Time end = SteadyNow() + patience;
  if (!port_->Accepts(patience)) {
    log_->error("event=port_dead listen={}", listen_);
    return false;
  }
  const auto stub = grpc::health::v1::Health::NewStub(InProcessChannel());
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + (end - SteadyNow())));
  grpc::health::v1::HealthCheckResponse response;
  return stub->Check(&context, {}, &response).error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
}

bool RpcServer::Drain(absl::Duration timeout) {
  if (server_ == nullptr || drained_) return true;
  drained_ = true;
  if (answer_watch_ != nullptr) answer_watch_->AskNoMore();
  const absl::Time deadline = absl::Now() + timeout;
  AnnounceEnd();
  stop_preparing_.store(true);
  gate_.Close();
  if (models_ != nullptr) models_->Stop();
  if (preparing_.joinable()) preparing_.join();
  const bool finished = gate_.WaitEmpty(deadline);
  if (timeout > absl::ZeroDuration()) LingerUntilQuiet(gate_);
  if (!finished) log_->warn("event=drain_expired running={}", gate_.inside());
  // Those that were refused have been written to.
  if (finished) gate_.WaitEmpty(absl::Now() + kFarewell);
  // Everyone has been answered or is out of time. Once gRPC shuts down, it ends whatever arrives, or is there still,
  // with a bare CANCELLED; and what it closes while a request comes takes answers with it that are on their way. So
  // nothing more is sent from here on, and what was sent arrives first.
  port_->Stop();
  port_->HangUp(kFarewell);
  if (http_ != nullptr) http_->Close(kFarewell);
  // gRPC would wait for clients to hang up, too; an idle one may never notice that it should.
  server_->Shutdown(absl::ToChronoTime(absl::Now() + absl::Milliseconds(finished ? 100 : 0)));
  server_->Wait();
  // Commands of streams that have lost their connection.
  engine_->sessions().EndAll();
  gate_.WaitEmpty(absl::InfiniteFuture());
  return finished;
}

}  // namespace kiln::server
