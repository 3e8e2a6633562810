#include "server/services/rpcs.h"

#include <utility>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/collective_service.grpc.pb.h"
#include "kiln/v1/debug_service.grpc.pb.h"
#include "kiln/v1/device_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "kiln/v1/session_service.grpc.pb.h"
#include "server/messages/not_implemented.h"

namespace kiln::v1 {
// By the names that their rows have.
using ::grpc::reflection::v1alpha::ServerReflection;
using ::inference::GRPCInferenceService;
}  // namespace kiln::v1

namespace kiln::server {
namespace {

// Whether an RPC of this kind is served.
constexpr bool kServed_UNARY = true, kServed_UPLOAD = true, kServed_DOWNLOAD = true, kServed_STREAM = true;
[[maybe_unused]] constexpr bool kServed_NO_UNARY = false, kServed_NO_UPLOAD = false, kServed_NO_DOWNLOAD = false,
                                kServed_NO_STREAM = false;

// By row: how metrics tell one from another.
#define KILN_METHOD(Service, Rpc, Messages, Kind, right) kMethod_##Service##_##Rpc,
enum MethodNumber : size_t { KILN_RPCS(KILN_METHOD) kMethods };
#undef KILN_METHOD
static_assert(kMethods <= LabelOf<Method>::kMost, "labels.h has room for fewer RPCs");

// Whether a call takes as long as the server does, not as its client.
constexpr bool kUnary_UNARY = true, kUnary_UPLOAD = false, kUnary_DOWNLOAD = false, kUnary_STREAM = false;
[[maybe_unused]] constexpr bool kUnary_NO_UNARY = true, kUnary_NO_UPLOAD = false, kUnary_NO_DOWNLOAD = false,
                                kUnary_NO_STREAM = false;

#define KILN_ROW(package, Service, Rpc, Kind, right) \
  {package, #Service, #Rpc, Right::right, kServed_##Kind, kUnary_##Kind},
#define KILN_OWN_ROW(Service, Rpc, Messages, Kind, right) KILN_ROW("kiln.v1", Service, Rpc, Kind, right)
#define KILN_INFERENCE_ROW(Service, Rpc, Messages, Kind, right) KILN_ROW("inference", Service, Rpc, Kind, right)
#define KILN_REFLECTION_ROW(Service, Rpc, Messages, Kind, right) \
  KILN_ROW("grpc.reflection.v1alpha", Service, Rpc, Kind, right)
constexpr RpcRow kRows[] = {KILN_OWN_RPCS(KILN_OWN_ROW) KILN_INFERENCE_RPCS(KILN_INFERENCE_ROW)
                                KILN_REFLECTION_RPCS(KILN_REFLECTION_ROW)};
#undef KILN_REFLECTION_ROW
#undef KILN_INFERENCE_ROW
#undef KILN_OWN_ROW
#undef KILN_ROW

// A call of any kind that ends as it begins.
template <typename Reactor>
class Refusal final : public Reactor {
 public:
  Refusal(const Arrival& arrival, const absl::Status& status) : gate_(arrival.env->gate) {
    gate_.Stay();
    FinishWith(*this, arrival, {}, status);
  }
  void OnEnd() override {
    gate_.Leave();
    delete this;
  }

 private:
  Gate& gate_;
};

template <typename Reactor, typename Begin>
Reactor* Stream(const Arrival& arrival, Right right, Begin begin) {
  auto admitted = Admit(arrival, right);
  if (!admitted.ok()) return new Refusal<Reactor>(arrival, admitted.status());
  const TenantPtr tenant = admitted->tenant();
  const absl::Time until = admitted->known_until();
  const uint64_t known_by = admitted->known_by();
  Reactor* const reactor = begin(*std::move(admitted));
  reactor->EndWithout(arrival, tenant, until, known_by);
  return reactor;
}

template <typename Reactor>
Reactor* Unserved(const Arrival& arrival, Right right, absl::string_view rpc) {
  const auto admitted = Admit(arrival, right);
  return new Refusal<Reactor>(arrival, admitted.ok() ? NotImplemented(rpc) : admitted.status());
}

// `Service` with those of its methods raw that `With` names: v1::X::WithRawCallbackMethod_Y.
template <typename Service, template <typename> class... With>
struct Raw {
  using type = Service;
};
template <typename Service, template <typename> class First, template <typename> class... Rest>
struct Raw<Service, First, Rest...> {
  using type = First<typename Raw<Service, Rest...>::type>;
};
// Ends a list.
template <typename Service>
using Same = Service;

#define KILN_ARRIVAL(Service, Rpc)                \
  {                                               \
    &env_, context, { kMethod_##Service##_##Rpc } \
  }
#define KILN_SERVE_UNARY(Service, Rpc, right)                                                          \
  grpc::ServerUnaryReactor* Rpc(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request, \
                                grpc::ByteBuffer* response) override {                                 \
    return Serve(KILN_ARRIVAL(Service, Rpc), right, *request, *response, rpc::Service::Rpc);           \
  }
#define KILN_SERVE_UPLOAD(Service, Rpc, right)                                                      \
  UploadReactor* Rpc(grpc::CallbackServerContext* context, grpc::ByteBuffer* response) override {   \
    return Stream<UploadReactor>(KILN_ARRIVAL(Service, Rpc), right, [response](Admitted admitted) { \
      return rpc::Service::Rpc(std::move(admitted), response);                                      \
    });                                                                                             \
  }
#define KILN_SERVE_DOWNLOAD(Service, Rpc, right)                                                         \
  DownloadReactor* Rpc(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override { \
    return Stream<DownloadReactor>(KILN_ARRIVAL(Service, Rpc), right, [request](Admitted admitted) {     \
      CountReceived(admitted, *request);                                                                 \
      return rpc::Service::Rpc(std::move(admitted), *request);                                           \
    });                                                                                                  \
  }
#define KILN_SERVE_STREAM(Service, Rpc, right)                                          \
  StreamReactor* Rpc(grpc::CallbackServerContext* context) override {                   \
    return Stream<StreamReactor>(KILN_ARRIVAL(Service, Rpc), right, rpc::Service::Rpc); \
  }
#define KILN_SERVE_NO_UNARY(Service, Rpc, right)                                                                  \
  grpc::ServerUnaryReactor* Rpc(grpc::CallbackServerContext* context, const grpc::ByteBuffer*, grpc::ByteBuffer*) \
      override {                                                                                                  \
    return Unserved<Revocable<grpc::ServerUnaryReactor>>(KILN_ARRIVAL(Service, Rpc), right, #Service "." #Rpc);   \
  }
#define KILN_SERVE_NO_UPLOAD(Service, Rpc, right)                                         \
  UploadReactor* Rpc(grpc::CallbackServerContext* context, grpc::ByteBuffer*) override {  \
    return Unserved<UploadReactor>(KILN_ARRIVAL(Service, Rpc), right, #Service "." #Rpc); \
  }
#define KILN_SERVE_NO_DOWNLOAD(Service, Rpc, right)                                              \
  DownloadReactor* Rpc(grpc::CallbackServerContext* context, const grpc::ByteBuffer*) override { \
    return Unserved<DownloadReactor>(KILN_ARRIVAL(Service, Rpc), right, #Service "." #Rpc);      \
  }
#define KILN_SERVE_NO_STREAM(Service, Rpc, right)                                         \
  StreamReactor* Rpc(grpc::CallbackServerContext* context) override {                     \
    return Unserved<StreamReactor>(KILN_ARRIVAL(Service, Rpc), right, #Service "." #Rpc); \
  }
#define KILN_SERVE(Service, Rpc, Messages, Kind, right) KILN_SERVE_##Kind(Service, Rpc, Right::right)
#define KILN_RAW(Name, Rpc, Messages, Kind, right) v1::Name::WithRawCallbackMethod_##Rpc,

#define KILN_SERVICE(Name, ROWS)                                                      \
  class Name##Impl final : public Raw<v1::Name::Service, ROWS(KILN_RAW) Same>::type { \
   public:                                                                            \
    explicit Name##Impl(const ServiceEnv& env) : env_(env) {}                         \
    ROWS(KILN_SERVE)                                                                  \
   private:                                                                           \
    const ServiceEnv env_;                                                            \
  };
KILN_SERVICE(KernelService, KILN_KERNEL_RPCS)
KILN_SERVICE(BufferService, KILN_BUFFER_RPCS)
KILN_SERVICE(DeviceService, KILN_DEVICE_RPCS)
KILN_SERVICE(DebugService, KILN_DEBUG_RPCS)
KILN_SERVICE(SessionService, KILN_SESSION_RPCS)
KILN_SERVICE(CollectiveService, KILN_COLLECTIVE_RPCS)
KILN_SERVICE(GRPCInferenceService, KILN_INFERENCE_RPCS)
KILN_SERVICE(ServerReflection, KILN_REFLECTION_RPCS)

}  // namespace

absl::Span<const RpcRow> RpcRows() { return kRows; }

absl::string_view MethodName(size_t row) {
#define KILN_NAME(Service, Rpc, Messages, Kind, right) #Service "." #Rpc,
  static constexpr absl::string_view kNames[] = {KILN_RPCS(KILN_NAME)};
#undef KILN_NAME
  return row < std::size(kNames) ? kNames[row] : "?";
}

std::vector<std::unique_ptr<grpc::Service>> MakeServices(const ServiceEnv& env, bool reflection) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<KernelServiceImpl>(env));
  services.push_back(std::make_unique<BufferServiceImpl>(env));
  services.push_back(std::make_unique<DeviceServiceImpl>(env));
  services.push_back(std::make_unique<DebugServiceImpl>(env));
  services.push_back(std::make_unique<SessionServiceImpl>(env));
  services.push_back(std::make_unique<CollectiveServiceImpl>(env));
  services.push_back(std::make_unique<GRPCInferenceServiceImpl>(env));
  if (reflection) services.push_back(std::make_unique<ServerReflectionImpl>(env));
  return services;
}

}  // namespace kiln::server
