#include "server/http/inference_http.h"

#include <grpcpp/grpcpp.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/admin/admin_port.h"
#include "server/http/http_status.h"
#include "server/http/infer_json.h"
#include "server/http/json_text.h"
#include "server/http/routes.h"
#include "server/http/settings_json.h"
#include "server/messages/status.h"
#include "server/port/local_peer.h"
#include "server/services/requests/codec.h"

namespace kiln::server {
namespace {

using nlohmann::json;
using Stub = inference::GRPCInferenceService::Stub;
using Answered = absl::StatusOr<HttpAnswer>;

// One request under way.
struct Exchange {
  HttpRequest request;
  Routed routed;
  HttpService::Done done;
  grpc::ClientContext context;
};
using ExchangePtr = std::shared_ptr<Exchange>;

Answered JsonAnswer(const json& object, int status = 200) {
  HttpAnswer answer;
  answer.status = status;
  answer.body = object.dump(-1, ' ', false, json::error_handler_t::replace);
  return answer;
}

// Of "is it live", "is it ready": the number says it, too.
Answered YesOrNo(json object, bool yes) { return JsonAnswer(object, yes ? 200 : 503); }

// gRPC takes no other bytes, and ends the process over them.
bool IsPrintable(absl::string_view text) { return absl::c_all_of(text, absl::ascii_isprint); }

class InferenceHttp final : public HttpService {
 public:
  InferenceHttp(std::shared_ptr<grpc::Channel> server, RequestPool* requests, InferenceHttpOptions options)
      : stub_(inference::GRPCInferenceService::NewStub(std::move(server))), requests_(*requests), options_(options) {}

  std::optional<HttpAnswer> Refuse(const HttpRequest& head) override {
    if (!head.origin.empty())
      return ErrorAnswer(403, "pages in browsers may not ask here; let a server of your own ask");
    if (options_.local_names_only && !head.host.empty() && !IsOurHost(head.host, {}))
      return ErrorAnswer(421, "ask by an address or by localhost: nothing else tells who may ask here");
    if (!IsPrintable(head.authorization)) return ErrorAnswer(400, "Authorization has bytes that cannot be printed");
    auto routed = FindRoute(head.method, head.target);
    if (auto* const none = std::get_if<HttpAnswer>(&routed)) return std::move(*none);
    if (std::get<Routed>(routed).route->has_body && !head.has_length)
      return ErrorAnswer(411, "send Content-Length, and a body as long");
    return std::nullopt;
  }

  std::function<void()> Answer(HttpRequest request, Done done) override {
    auto exchange = std::make_shared<Exchange>();
    auto routed = FindRoute(request.method, request.target);
    exchange->request = std::move(request);
    exchange->routed = std::get<Routed>(std::move(routed));  // else it was refused by its head
    exchange->done = std::move(done);
    const HttpRequest& asked = exchange->request;
    if (!asked.authorization.empty()) exchange->context.AddMetadata("authorization", asked.authorization);
    if (!asked.traceparent.empty() && IsPrintable(asked.traceparent))
      exchange->context.AddMetadata("traceparent", asked.traceparent);
    if (options_.peers != nullptr)
      exchange->context.AddMetadata(HttpPeers::kMetadata, options_.peers->Saying(asked.peer));
    const size_t bytes = asked.body.size();
    if (bytes <= kSmallRequest) {
      Begin(exchange);
    } else if (absl::Status wait = requests_.Offer(Caller(asked), bytes, [this, exchange] { Begin(exchange); });
               !wait.ok()) {
      exchange->done(AnswerOf(wait));
    }
    return [exchange] { exchange->context.TryCancel(); };
  }

 private:
  static std::string Caller(const HttpRequest& request) { return absl::StrCat("http:", request.peer); }

  // Calls the RPC that the route stands for.
  void Begin(const ExchangePtr& exchange) {
    absl::Status status = [&] {
      switch (exchange->routed.route->rpc) {
        case Rpc::kServerLive: return ServerLive(exchange);
        case Rpc::kServerReady: return ServerReady(exchange);
        case Rpc::kServerMetadata: return ServerMetadata(exchange);
        case Rpc::kModelReady: return ModelReady(exchange);
        case Rpc::kModelMetadata: return ModelMetadata(exchange);
        case Rpc::kModelConfig: return ModelConfig(exchange);
        case Rpc::kModelStatistics: return ModelStatistics(exchange);
        case Rpc::kModelInfer: return ModelInfer(exchange);
        case Rpc::kRepositoryIndex: return RepositoryIndex(exchange);
        case Rpc::kRepositoryModelLoad: return RepositoryModelLoad(exchange);
        case Rpc::kRepositoryModelUnload: return RepositoryModelUnload(exchange);
        case Rpc::kSystemSharedMemoryStatus: return SystemSharedMemoryStatus(exchange);
        case Rpc::kSystemSharedMemoryRegister: return SystemSharedMemoryRegister(exchange);
        case Rpc::kSystemSharedMemoryUnregister: return SystemSharedMemoryUnregister(exchange);
        case Rpc::kCudaSharedMemoryStatus: return CudaSharedMemoryStatus(exchange);
        case Rpc::kCudaSharedMemoryRegister: return CudaSharedMemoryRegister(exchange);
        case Rpc::kCudaSharedMemoryUnregister: return CudaSharedMemoryUnregister(exchange);
        case Rpc::kTraceSetting: return TraceSetting(exchange);
        case Rpc::kLogSettings: return LogSettings(exchange);
      }
      return absl::InternalError("no such RPC");
    }();
    if (!status.ok()) exchange->done(AnswerOf(status));
  }

  // Calls `start`, which calls an RPC; `write` makes the answer of a response.
  template <typename Request, typename Response, typename Start>
  absl::Status Ask(const ExchangePtr& exchange, Request request, Start start,
                   std::function<Answered(const Response&)> write) {
    struct Messages {
      Request request;
      Response response;
    };
    auto messages = std::make_shared<Messages>();
    messages->request = std::move(request);
    auto answer = [exchange, messages, write = std::move(write)] {
      Answered made = write(messages->response);
      exchange->done(made.ok() ? *std::move(made) : AnswerOf(made.status()));
    };
    start(*stub_->async(), &exchange->context, &messages->request, &messages->response,
          [this, exchange, messages, answer = std::move(answer)](const grpc::Status& status) mutable {
            if (!status.ok()) return exchange->done(AnswerOf(FromGrpc(status)));
            if (messages->response.ByteSizeLong() <= kSmallRequest) return answer();
            requests_.Push(Caller(exchange->request), std::move(answer));
          });
    return absl::OkStatus();
  }

// The call of an RPC by its name: `async()` has each several times.
#define KILN_START(Rpc)                                                                               \
  [](Stub::async_interface& async, grpc::ClientContext* context, const auto* request, auto* response, \
     std::function<void(grpc::Status)> done) { async.Rpc(context, request, response, std::move(done)); }

  // A request for a model, by the names of its path.
  template <typename Request>
  static Request OfModel(const ExchangePtr& exchange) {
    Request request;
    request.set_name(exchange->routed.model);
    request.set_version(exchange->routed.version);
    return request;
  }

  absl::Status ServerLive(const ExchangePtr& exchange) {
    return Ask<inference::ServerLiveRequest, inference::ServerLiveResponse>(
        exchange, {}, KILN_START(ServerLive),
        [](const auto& response) { return YesOrNo({{"live", response.live()}}, response.live()); });
  }

  absl::Status ServerReady(const ExchangePtr& exchange) {
    return Ask<inference::ServerReadyRequest, inference::ServerReadyResponse>(
        exchange, {}, KILN_START(ServerReady),
        [](const auto& response) { return YesOrNo({{"ready", response.ready()}}, response.ready()); });
  }

  absl::Status ServerMetadata(const ExchangePtr& exchange) {
    return Ask<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
        exchange, {}, KILN_START(ServerMetadata), [](const auto& response) {
          json object = ToJson(response);
          object["extensions"].push_back("binary_tensor_data");
          return JsonAnswer(object);
        });
  }

  absl::Status ModelReady(const ExchangePtr& exchange) {
    return Ask<inference::ModelReadyRequest, inference::ModelReadyResponse>(
        exchange, OfModel<inference::ModelReadyRequest>(exchange), KILN_START(ModelReady),
        [name = exchange->routed.model](const auto& response) {
          return YesOrNo({{"name", name}, {"ready", response.ready()}}, response.ready());
        });
  }

  absl::Status ModelMetadata(const ExchangePtr& exchange) {
    return Ask<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
        exchange, OfModel<inference::ModelMetadataRequest>(exchange), KILN_START(ModelMetadata),
        [](const auto& response) { return JsonAnswer(ToJson(response)); });
  }

  absl::Status ModelConfig(const ExchangePtr& exchange) {
    return Ask<inference::ModelConfigRequest, inference::ModelConfigResponse>(
        exchange, OfModel<inference::ModelConfigRequest>(exchange), KILN_START(ModelConfig),
        [](const auto& response) { return JsonAnswer(ToJson(response.config())); });
  }

  absl::Status ModelStatistics(const ExchangePtr& exchange) {
    return Ask<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
        exchange, OfModel<inference::ModelStatisticsRequest>(exchange), KILN_START(ModelStatistics),
        [](const auto& response) { return JsonAnswer(ToJson(response)); });
  }

  absl::Status ModelInfer(const ExchangePtr& exchange) {
    inference::ModelInferRequest request;
    BinaryOutputs binary;
    HttpRequest& asked = exchange->request;
    request.set_model_name(exchange->routed.model);
    KILN_RETURN_IF_ERROR(ReadInferRequest(asked.body, asked.json_bytes, request, binary));
    asked.body = std::string();
    request.set_model_version(exchange->routed.version);
    return Ask<inference::ModelInferRequest, inference::ModelInferResponse>(
        exchange, std::move(request), KILN_START(ModelInfer),
        [binary = std::move(binary)](const auto& response) { return WriteInferResponse(response, binary); });
  }

  absl::Status RepositoryIndex(const ExchangePtr& exchange) {
    KILN_ASSIGN_OR_RETURN(const json body, ParseJson(exchange->request.body));
    inference::RepositoryIndexRequest request;
    const json ready = body.value("ready", json(false));
    if (!ready.is_boolean()) return BadField("ready", "is neither true nor false");
    request.set_ready(ready.get<bool>());
    return Ask<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
        exchange, std::move(request), KILN_START(RepositoryIndex),
        [](const auto& response) { return JsonAnswer(ToJson(response)["models"]); });
  }

  absl::Status RepositoryModelLoad(const ExchangePtr& exchange) {
    KILN_ASSIGN_OR_RETURN(const json body, ParseJson(exchange->request.body));
    inference::RepositoryModelLoadRequest request;
    request.set_model_name(exchange->routed.model);
    // What they are is not looked at: none is taken.
    const json parameters = body.value("parameters", json::object());
    if (!parameters.is_object()) return BadField("parameters", "is no object");
    for (const auto& [name, value] : parameters.items()) (*request.mutable_parameters())[name].set_bool_param(true);
    return Ask<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>(
        exchange, std::move(request), KILN_START(RepositoryModelLoad),
        [](const auto&) { return JsonAnswer(json::object()); });
  }

  absl::Status RepositoryModelUnload(const ExchangePtr& exchange) {
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name(exchange->routed.model);
    return Ask<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
        exchange, std::move(request), KILN_START(RepositoryModelUnload),
        [](const auto&) { return JsonAnswer(json::object()); });
  }

  // A request for a region, by the name of its path; without one, for all.
  template <typename Request>
  static Request OfRegion(const ExchangePtr& exchange) {
    Request request;
    request.set_name(exchange->routed.region);
    return request;
  }

  // A list of regions, as Triton has it.
  template <typename Response>
  static Answered RegionsAnswer(const Response& response) {
    json rows = json::array();
    for (const auto& [name, row] : std::map(response.regions().begin(), response.regions().end()))
      rows.push_back(ToJson(row));
    return JsonAnswer(rows);
  }

  absl::Status SystemSharedMemoryStatus(const ExchangePtr& exchange) {
    using Response = inference::SystemSharedMemoryStatusResponse;
    return Ask<inference::SystemSharedMemoryStatusRequest, Response>(
        exchange, OfRegion<inference::SystemSharedMemoryStatusRequest>(exchange), KILN_START(SystemSharedMemoryStatus),
        RegionsAnswer<Response>);
  }

  absl::Status SystemSharedMemoryRegister(const ExchangePtr& exchange) {
    KILN_ASSIGN_OR_RETURN(const json body, ParseJson(exchange->request.body));
    auto request = OfRegion<inference::SystemSharedMemoryRegisterRequest>(exchange);
    for (const auto& [name, value] : body.items()) {
      if (name == "key" && value.is_string()) {
        request.set_key(value.get<std::string>());
      } else if (name == "offset" && value.is_number_unsigned()) {
        request.set_offset(value.get<uint64_t>());
      } else if (name == "byte_size" && value.is_number_unsigned()) {
        request.set_byte_size(value.get<uint64_t>());
      } else {
        return BadField(Shown(name), "is none of a string \"key\" and numbers \"offset\" and \"byte_size\" from 0 on");
      }
    }
    return Ask<inference::SystemSharedMemoryRegisterRequest, inference::SystemSharedMemoryRegisterResponse>(
        exchange, std::move(request), KILN_START(SystemSharedMemoryRegister),
        [](const auto&) { return JsonAnswer(json::object()); });
  }

  absl::Status SystemSharedMemoryUnregister(const ExchangePtr& exchange) {
    return Ask<inference::SystemSharedMemoryUnregisterRequest, inference::SystemSharedMemoryUnregisterResponse>(
        exchange, OfRegion<inference::SystemSharedMemoryUnregisterRequest>(exchange),
        KILN_START(SystemSharedMemoryUnregister), [](const auto&) { return JsonAnswer(json::object()); });
  }

  absl::Status CudaSharedMemoryStatus(const ExchangePtr& exchange) {
    using Response = inference::CudaSharedMemoryStatusResponse;
    return Ask<inference::CudaSharedMemoryStatusRequest, Response>(
        exchange, OfRegion<inference::CudaSharedMemoryStatusRequest>(exchange), KILN_START(CudaSharedMemoryStatus),
        RegionsAnswer<Response>);
  }

  // What it says is not looked at: none is taken.
  absl::Status CudaSharedMemoryRegister(const ExchangePtr& exchange) {
    return Ask<inference::CudaSharedMemoryRegisterRequest, inference::CudaSharedMemoryRegisterResponse>(
        exchange, OfRegion<inference::CudaSharedMemoryRegisterRequest>(exchange), KILN_START(CudaSharedMemoryRegister),
        [](const auto&) { return JsonAnswer(json::object()); });
  }

  absl::Status CudaSharedMemoryUnregister(const ExchangePtr& exchange) {
    return Ask<inference::CudaSharedMemoryUnregisterRequest, inference::CudaSharedMemoryUnregisterResponse>(
        exchange, OfRegion<inference::CudaSharedMemoryUnregisterRequest>(exchange),
        KILN_START(CudaSharedMemoryUnregister), [](const auto&) { return JsonAnswer(json::object()); });
  }

  // Of a path that reads without one: what else comes does not count.
  static absl::string_view BodyOf(const ExchangePtr& exchange) {
    return exchange->routed.route->has_body ? absl::string_view(exchange->request.body) : "";
  }

  absl::Status TraceSetting(const ExchangePtr& exchange) {
    KILN_ASSIGN_OR_RETURN(inference::TraceSettingRequest request, ReadTraceSettings(BodyOf(exchange)));
    request.set_model_name(exchange->routed.model);
    return Ask<inference::TraceSettingRequest, inference::TraceSettingResponse>(
        exchange, std::move(request), KILN_START(TraceSetting),
        [](const auto& response) { return JsonAnswer(WriteTraceSettings(response)); });
  }

  absl::Status LogSettings(const ExchangePtr& exchange) {
    KILN_ASSIGN_OR_RETURN(inference::LogSettingsRequest request, ReadLogSettings(BodyOf(exchange)));
    return Ask<inference::LogSettingsRequest, inference::LogSettingsResponse>(
        exchange, std::move(request), KILN_START(LogSettings),
        [](const auto& response) { return JsonAnswer(WriteLogSettings(response)); });
  }

#undef KILN_START

  const std::unique_ptr<Stub> stub_;
  RequestPool& requests_;
  const InferenceHttpOptions options_;
};

}  // namespace

std::unique_ptr<HttpService> MakeInferenceHttp(std::shared_ptr<grpc::Channel> server, RequestPool* requests,
                                               InferenceHttpOptions options) {
  return std::make_unique<InferenceHttp>(std::move(server), requests, options);
}

}  // namespace kiln::server
