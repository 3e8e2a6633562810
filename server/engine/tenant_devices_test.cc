// Which devices a tenant's names mean. That its programs run there: tests/python/server/executors_test.py.
#include "server/engine/memory/tenant_devices.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/drivers/null/device.h"
#include "server/engine/engine.h"

namespace kiln::server {
namespace {

DeviceList NullDevices(int count) {
  DeviceList devices;
  for (int i = 0; i < count; ++i)
    devices.push_back(*runtime::null::CreateDevice({.name = "NULL:" + std::to_string(i)}));
  return devices;
}

// Of the tenant "apart", with a device of the name of the server's first.
class OwnDevices final : public TenantDevices {
 public:
  absl::Status SetTenants(const std::map<std::string, bool>&) override { return absl::OkStatus(); }
  const DeviceList* Of(absl::string_view tenant) override { return tenant == "apart" ? &devices : nullptr; }
  void Drain() override { runtime::hal::DrainAll(devices); }

  const DeviceList devices = NullDevices(1);
};

class TenantDevicesTest : public ::testing::Test {
 protected:
  static EngineOptions Options(std::shared_ptr<TenantDevices> devices) {
    EngineOptions options;
    options.tenant_devices = [devices = std::move(devices)](const DeviceList&) { return devices; };
    return options;
  }
  TenantDevicesTest() {
    Tenant apart, other;
    apart.name = "apart", apart.apart = true, other.name = "other";
    KILN_CHECK(engine_.SetTenants({std::make_shared<const Tenant>(apart), std::make_shared<const Tenant>(other)}).ok());
  }
  v1::ErrorCode CodeOf(const absl::Status& status) { return DetailOf(status)->code(); }

  const std::shared_ptr<OwnDevices> own_ = std::make_shared<OwnDevices>();
  Engine engine_{Options(own_), NullDevices(2), nullptr, nullptr};
  const SessionPtr apart_ = engine_.sessions().HomeOf("apart"), other_ = engine_.sessions().HomeOf("other");
};

TEST_F(TenantDevicesTest, NamesMeanTheTenantsOwn) {
  EXPECT_EQ(*engine_.FindDevice("NULL:0", RulesOf(apart_.get())), own_->devices[0].get());
  EXPECT_EQ(*engine_.FindDevice("", RulesOf(apart_.get())), own_->devices[0].get());
  EXPECT_EQ(engine_.devices(RulesOf(apart_.get())).size(), 1u);
  for (const Session* caller : {static_cast<const Session*>(other_.get()), static_cast<const Session*>(nullptr)}) {
    EXPECT_EQ(*engine_.FindDevice("NULL:0", RulesOf(caller)), engine_.devices()[0].get());
    EXPECT_EQ(*engine_.FindDevice("NULL:1", RulesOf(caller)), engine_.devices()[1].get());
    EXPECT_EQ(engine_.devices(RulesOf(caller)).size(), 2u);
  }
}

TEST_F(TenantDevicesTest, WhatItHasNotIsSaid) {
  EXPECT_EQ(CodeOf(engine_.FindDevice("NULL:1", RulesOf(apart_.get())).status()), v1::NOT_IMPLEMENTED);
  EXPECT_EQ(CodeOf(engine_.FindDevice("NULL:2", RulesOf(apart_.get())).status()), v1::UNKNOWN_DEVICE);
  EXPECT_EQ(CodeOf(engine_.FindDevice("NULL:2", RulesOf(other_.get())).status()), v1::UNKNOWN_DEVICE);
}

TEST_F(TenantDevicesTest, BuffersAreThere) {
  auto buffer = engine_.buffers().Allocate("NULL:0", 64, apart_);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->record->device, own_->devices[0].get());
  EXPECT_EQ(engine_.devices()[0]->stats().memory.buffers, 0u);
  buffer->record = nullptr;
  EXPECT_TRUE(engine_.buffers().Free({buffer->handle}, apart_.get()).ok());
  EXPECT_EQ(own_->devices[0]->stats().memory.buffers, 0u);
}

TEST_F(TenantDevicesTest, SessionsOfTheTenantHaveThem) {
  const auto opened = engine_.sessions().Open("", 0, "", "apart");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*engine_.sessions().Find(opened->token, "apart"))->rules()->own, &own_->devices);
}

}  // namespace
}  // namespace kiln::server
