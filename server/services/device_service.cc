// DeviceService: what the server computes on, and what it can do. Watch is in device_watch.cc.
#include "compiler/options/version.h"
#include "kiln/v1/device_service.pb.h"
#include "server/messages/convert.h"
#include "server/services/device_watch.h"
#include "server/services/features.h"
#include "server/services/own_share.h"
#include "server/services/rpcs.h"

namespace kiln::server {

void rpc::DeviceService::List(UnaryCall<v1::ListDevicesRequest, v1::ListDevicesResponse>& call) {
  v1::ListDevicesResponse& answer = call.response();
  const Engine& engine = call.env().engine;
  const TenantRules* rules = RulesOf(call.session().get());
  for (const auto& device : engine.devices(rules)) {
    if (!Engine::MayUse(rules, device->name())) continue;
    v1::Device& shown = *answer.add_devices();
    FillDevice(*device, engine.turns().waiting(*device), shown);
    ShowOwnShare(call.tenant(), call.control().account, *device, shown);
    HidePeers(rules, shown);
  }
  for (const v1::AbsentDevices& absent : call.env().engine.absent()) *answer.add_absent() = absent;
  answer.set_protocol_min(kProtocolVersion);
  answer.set_protocol_max(kProtocolVersion);
  answer.set_address(call.env().engine.sessions().address());
  for (const char* feature : FeaturesOf(call.env())) answer.add_features(feature);
  answer.set_server_version(compiler::kCompilerVersion);
  call.Reply(absl::OkStatus());
}

void rpc::DeviceService::Describe(UnaryCall<v1::DescribeDeviceRequest, v1::DescribeDeviceResponse>& call) {
  const TenantRules* rules = RulesOf(call.session().get());
  const auto device = call.env().engine.FindDevice(call.request().name(), rules);
  if (!device.ok()) return call.Reply(device.status());
  v1::Device& shown = *call.response().mutable_device();
  FillDevice(**device, call.env().engine.turns().waiting(**device), shown);
  ShowOwnShare(call.tenant(), call.control().account, **device, shown);
  HidePeers(rules, shown);
  call.Reply(absl::OkStatus());
}

}  // namespace kiln::server
