// Tenants of one engine: what each pays for, and what it can use.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/tenancy_fixture.h"

namespace kiln::server {
namespace {

class TenancyTest : public ::testing::Test, protected EngineWithTenants {};

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

TEST_F(TenancyTest, NorDoesWhatWasRecordedOnIt) {
  Restart(2);
  ASSERT_TRUE(SetTenants({Named("a", 0, {"NULL:1"})}).ok());
  v1::RecordSequenceRequest request;
  request.add_programs()->set_graph_hash(std::string(Compile("a", 1)->program->graph_hash.view()));
  request.add_steps();
  Recordings::Handle recording;
  absl::Notification recorded;
  engine_->Record(request, Home("a"), {}, [&](absl::StatusOr<Recordings::Handle> made) {
    if (made.ok()) recording = *std::move(made);
    recorded.Notify();
  });
  recorded.WaitForNotification();
  ASSERT_NE(recording, nullptr);
  const auto replay = [&] {
    ReplayRequest asked;
    asked.found = recording;
    asked.caller = Home("a");
    absl::Status status;
    absl::Notification done;
    engine_->Replay(asked, {}, [&](absl::StatusOr<ExecuteTiming> timing) {
      status = timing.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  };
  EXPECT_TRUE(replay().ok());
  ASSERT_TRUE(SetTenants({Named("a", 0, {"NULL:0"})}).ok());
  EXPECT_EQ(CodeOf(replay()), v1::UNKNOWN_DEVICE);
}

}  // namespace
}  // namespace kiln::server
