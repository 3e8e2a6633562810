// Tenants of one engine: what each pays for, and what it can use. On a device that computes nothing, with a compiler
// that makes nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "runtime/drivers/null/device.h"
#include "server/engine/engine.h"

namespace kiln::server {
namespace {

v1::ErrorCode CodeOf(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
}

class TenancyTest : public ::testing::Test {
 protected:
  TenancyTest() { Restart(1); }

  void Restart(int devices) {
    std::vector<std::unique_ptr<runtime::hal::Device>> made;
    for (int i = 0; i < devices; ++i)
      made.push_back(*runtime::null::CreateDevice({.name = absl::StrCat("NULL:", i), .memory_limit_bytes = kMemory}));
    const auto compile = [this](const v1::Graph&, const v1::Target& target, const compiler::Options&,
                                compiler::CompileObserver*) -> absl::StatusOr<CompiledProgram> {
      ++compiles_;
      v1::Executable executable;
      *executable.mutable_target() = target;
      v1::Kernel& kernel = *executable.add_kernels();
      kernel.set_symbol("k");
      kernel.set_iterations(1);
      executable.add_steps();
      return executable;
    };
    EngineOptions options;
    options.sessions.domain_secret = "secret";
    engine_ = std::make_unique<Engine>(options, std::move(made), InProcess(compile), nullptr);
  }

  // A graph of its own for each number.
  static v1::Graph GraphOf(int number) {
    return *ParseGraph(absl::StrCat("0 CONST [] int32 ", number, "\n1 SINK [0]\n"));
  }

  SessionPtr Home(const std::string& tenant) { return engine_->sessions().HomeOf(tenant); }
  Account& AccountOf(const std::string& tenant) { return *engine_->accounts().Of(tenant); }
  void SetLimit(const std::string& tenant, Quota quota, uint64_t limit) {
    QuotaLimits limits = {};
    limits[static_cast<size_t>(quota)] = limit;
    AccountOf(tenant).SetLimits(limits);
  }

  absl::StatusOr<CompileResult> Compile(const std::string& tenant, int number, absl::string_view device = "") {
    const v1::Graph graph = GraphOf(number);
    absl::StatusOr<CompileResult> result;
    absl::Notification done;
    engine_->Compile({&graph, device, {}, Home(tenant)}, {}, [&](absl::StatusOr<CompileResult> r) {
      result = std::move(r);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  std::vector<std::string> HashesOf(const std::string& tenant) {
    std::vector<std::string> hashes;
    for (const auto& program : engine_->ListPrograms(Home(tenant).get()))
      hashes.emplace_back(program->graph_hash.view());
    return hashes;
  }

  absl::Status Record(const std::string& tenant, const std::string& hash) {
    v1::RecordSequenceRequest request;
    request.add_programs()->set_graph_hash(hash);
    request.add_steps();
    absl::Status status;
    absl::Notification done;
    engine_->Record(request, Home(tenant), {}, [&](absl::StatusOr<Recordings::Handle> recording) {
      status = recording.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }

  // What a file of tenants says.
  absl::Status SetTenants(const std::vector<Tenant>& tenants) {
    std::vector<std::shared_ptr<const Tenant>> all;
    for (const Tenant& tenant : tenants) all.push_back(std::make_shared<const Tenant>(tenant));
    return engine_->SetTenants(all);
  }
  static Tenant Named(const std::string& name, uint64_t guaranteed = 0, std::vector<std::string> devices = {}) {
    Tenant tenant;
    tenant.name = name;
    tenant.guaranteed_device_bytes = guaranteed;
    tenant.devices = std::move(devices);
    return tenant;
  }

  absl::StatusOr<uint64_t> Allocate(const std::string& tenant, uint64_t bytes, absl::string_view device = "") {
    auto made = engine_->buffers().Allocate(device, bytes, Home(tenant));
    if (!made.ok()) return std::move(made).status();
    return made->handle;
  }
  absl::Status Free(const std::string& tenant, uint64_t handle) {
    return engine_->buffers().Free({handle}, Home(tenant).get());
  }

  static constexpr uint64_t kMemory = 1 << 20;
  // What a small program weighs.
  const uint64_t each_ = WeightOf(0, 1, EngineOptions().program_cache_bytes);
  std::atomic<int> compiles_{0};
  std::unique_ptr<Engine> engine_;
};

TEST_F(TenancyTest, ProgramsArePaidForUntilTheyAreGone) {
  ASSERT_TRUE(Compile("a", 1).ok());
  EXPECT_EQ(AccountOf("a").used(Quota::kProgramBytes), each_);
  ASSERT_TRUE(Compile("a", 1)->from_cache);
  ASSERT_TRUE(Compile("a", 2).ok());
  ASSERT_TRUE(Compile("b", 1).ok());
  EXPECT_EQ(AccountOf("a").used(Quota::kProgramBytes), 2 * each_);
  EXPECT_EQ(AccountOf("b").used(Quota::kProgramBytes), each_);
}

TEST_F(TenancyTest, ANewProgramTakesThePlaceOfTheTenantsOldestThatNobodyUses) {
  SetLimit("a", Quota::kProgramBytes, 3 * each_);
  const std::string others(Compile("b", 1)->program->graph_hash.view());
  for (int i = 1; i <= 3; ++i) ASSERT_TRUE(Compile("a", i).ok());
  const auto first = Compile("a", 1);  // in use from now on
  ASSERT_TRUE(Compile("a", 4).ok());
  std::vector<std::string> left;
  for (const int number : {4, 1, 3}) left.emplace_back(Compile("a", number)->program->graph_hash.view());
  EXPECT_EQ(compiles_, 5) << "these were all there";
  EXPECT_EQ(HashesOf("a"), std::vector<std::string>(left.rbegin(), left.rend())) << "and the second was not";
  EXPECT_EQ(HashesOf("b"), std::vector<std::string>{others});
  EXPECT_EQ(AccountOf("a").used(Quota::kProgramBytes), 3 * each_);
}

TEST_F(TenancyTest, OneMoreIsRefusedIfAllAreInUse) {
  SetLimit("a", Quota::kProgramBytes, 2 * each_);
  auto first = Compile("a", 1);
  const auto second = Compile("a", 2);
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status refused = Compile("a", 3).status();
  EXPECT_EQ(CodeOf(refused), v1::QUOTA_EXCEEDED) << refused;
  EXPECT_EQ(DetailOf(refused)->limit(), "program_bytes");
  EXPECT_EQ(DetailOf(refused)->limit_value(), 2 * each_);
  EXPECT_EQ(DetailOf(refused)->used(), 3 * each_);
  EXPECT_TRUE(Compile("b", 3).ok());
  first = absl::UnknownError("let go");
  EXPECT_TRUE(Compile("a", 3).ok());
  EXPECT_EQ(AccountOf("a").used(Quota::kProgramBytes), 2 * each_);
}

TEST_F(TenancyTest, WhatWouldNotFitIntoAnEmptyQuotaEvictsNothing) {
  ASSERT_TRUE(Compile("a", 1).ok());
  SetLimit("a", Quota::kProgramBytes, each_ - 1);
  EXPECT_EQ(CodeOf(Compile("a", 2).status()), v1::QUOTA_EXCEEDED);
  EXPECT_EQ(HashesOf("a").size(), 1u);
}

TEST_F(TenancyTest, ARecordingKeepsItsProgramsPaidAndGivesWay) {
  const std::string hash(Compile("a", 1)->program->graph_hash.view());
  ASSERT_TRUE(Record("a", hash).ok());
  const uint64_t recorded = AccountOf("a").used(Quota::kProgramBytes);
  EXPECT_GT(recorded, each_);
  EXPECT_LT(recorded, 2 * each_) << "its program is paid for once";
  SetLimit("a", Quota::kProgramBytes, each_);
  EXPECT_TRUE(Compile("a", 2).ok());
  EXPECT_EQ(AccountOf("a").used(Quota::kProgramBytes), each_);
}

TEST_F(TenancyTest, WhatIsGuaranteedIsThereWhateverOthersTake) {
  ASSERT_TRUE(SetTenants({Named("a", kMemory / 4), Named("b"), Named("c", kMemory / 4)}).ok());
  const auto most = Allocate("b", kMemory / 2);
  ASSERT_TRUE(most.ok()) << most.status();
  const absl::Status refused = Allocate("b", 64).status();
  EXPECT_EQ(CodeOf(refused), v1::OUT_OF_MEMORY) << refused;
  EXPECT_EQ(DetailOf(refused)->limit(), "guaranteed_device_bytes");
  EXPECT_EQ(DetailOf(refused)->limit_value(), 0u);
  EXPECT_EQ(DetailOf(refused)->used(), 64u);
  EXPECT_EQ(CodeOf(engine_->buffers().Allocate("", 64).status()), v1::OUT_OF_MEMORY) << "nor can who is no tenant";
  const auto part = Allocate("a", kMemory / 4);
  EXPECT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(DetailOf(Allocate("a", 64).status())->limit(), "guaranteed_device_bytes") << "the rest is c's";
  EXPECT_TRUE(Allocate("c", kMemory / 4).ok());
  EXPECT_EQ(CodeOf(Allocate("c", 64).status()), v1::OUT_OF_MEMORY);
  EXPECT_NE(DetailOf(Allocate("c", 64).status())->limit(), "guaranteed_device_bytes") << "all is in use";
  // What is given back is again its owner's to take, and nobody else's.
  ASSERT_TRUE(Free("a", *part).ok());
  EXPECT_FALSE(Allocate("b", 64).ok());
  EXPECT_TRUE(Allocate("a", kMemory / 8).ok());
  ASSERT_TRUE(Free("b", *most).ok());
  EXPECT_EQ(DetailOf(Allocate("b", kMemory).status())->limit_value(), kMemory / 2);
  EXPECT_TRUE(Allocate("b", kMemory / 2).ok());
}

TEST_F(TenancyTest, AGuaranteeThatComesLaterTakesNothingAway) {
  const auto handle = Allocate("b", kMemory - 64);
  ASSERT_TRUE(handle.ok());
  ASSERT_TRUE(SetTenants({Named("a", kMemory / 2), Named("b")}).ok());
  EXPECT_FALSE(Allocate("a", kMemory / 2).ok());
  EXPECT_FALSE(Allocate("b", 64).ok());
  ASSERT_TRUE(Free("b", *handle).ok());
  EXPECT_FALSE(Allocate("b", kMemory / 2 + 64).ok());
  EXPECT_TRUE(Allocate("a", kMemory / 2).ok());
  // And goes with its line.
  ASSERT_TRUE(SetTenants({Named("b")}).ok());
  EXPECT_TRUE(Allocate("b", kMemory / 2).ok());
}

TEST_F(TenancyTest, NoMoreIsGuaranteedThanThereIs) {
  Restart(2);
  const std::vector<Tenant> too_much = {Named("a", kMemory, {"NULL:0"}), Named("b", 64, {"NULL:*"})};
  const absl::Status refused = SetTenants(too_much);
  EXPECT_EQ(CodeOf(refused), v1::BAD_ARGUMENT);
  EXPECT_EQ(DetailOf(refused)->field(), "tenants");
  EXPECT_TRUE(Allocate("c", kMemory).ok()) << "nothing of it counts";
  EXPECT_TRUE(SetTenants({Named("a", kMemory, {"NULL:0"}), Named("b", kMemory, {"NULL:1"})}).ok());
  EXPECT_FALSE(SetTenants({Named("a", ~uint64_t{0}), Named("b", ~uint64_t{0})}).ok());
}

TEST_F(TenancyTest, ADeviceOfOthersDoesNotExist) {
  Restart(3);
  ASSERT_TRUE(
      SetTenants({Named("a", 0, {"NULL:1", "NULL:2"}), Named("b", 0, {"NULL:*"}), Named("c", 0, {"CPU:*"})}).ok());
  EXPECT_EQ(Compile("a", 1)->program->device->name(), "NULL:1") << "the first that it has";
  EXPECT_EQ(Compile("b", 1)->program->device->name(), "NULL:0");
  EXPECT_EQ(Compile("d", 1)->program->device->name(), "NULL:0") << "none of the file, with no rule";
  for (const char* device : {"NULL:0", "NULL:7"}) {
    for (const absl::Status& status : {Compile("a", 1, device).status(), Allocate("a", 8, device).status()}) {
      EXPECT_EQ(CodeOf(status), v1::UNKNOWN_DEVICE) << status;
      EXPECT_EQ(std::string(status.message()),
                absl::StrCat("there is no device \"", device, "\"; the first is NULL:1"));
    }
  }
  EXPECT_TRUE(Allocate("a", 8, "NULL:2").ok());
  EXPECT_EQ(CodeOf(Allocate("c", 8).status()), v1::UNKNOWN_DEVICE);
  const auto held = Allocate("a", 8, "NULL:1");
  ASSERT_TRUE(SetTenants({Named("a", 0, {"NULL:2"})}).ok());
  EXPECT_EQ(CodeOf(Compile("a", 1, "NULL:1").status()), v1::UNKNOWN_DEVICE) << "from now on";
  EXPECT_TRUE(Free("a", *held).ok()) << "what it has there it can still give back";
}

}  // namespace
}  // namespace kiln::server
