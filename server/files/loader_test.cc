// Loads that share the reading thread; what files hold is tested by tests/python/load_test.py.
#include "server/files/loader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "server/engine/tenancy_fixture.h"

namespace kiln::server {
namespace {

class LoaderTest : public testing::Test, protected EngineWithTenants {
 protected:
  LoaderTest() : folder_(std::filesystem::path(testing::TempDir()) / absl::StrCat("loader_test.", getpid())) {
    Restart(1, EngineOptions().compile_threads, uint64_t{256} << 20);
    std::filesystem::create_directories(folder_);
    loader_ = std::make_unique<Loader>(*DataFolder::Open(folder_.string()), &engine_->buffers());
  }
  ~LoaderTest() override {
    loader_.reset();
    std::filesystem::remove_all(folder_);
  }

  // A .npy of so many bytes, all zeros, which take no place on the disk.
  void Write(const std::string& name, uint64_t bytes) {
    std::string dict = absl::StrCat("{'descr': '|u1', 'fortran_order': False, 'shape': (", bytes, ",), }");
    dict.resize(117, ' ');
    const std::string header = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + dict + "\n";
    std::ofstream(folder_ / name, std::ios::binary) << header;
    std::filesystem::resize_file(folder_ / name, header.size() + bytes);
  }

  Control ControlOf(const std::string& tenant) {
    Control control;
    control.account = &AccountOf(tenant);
    return control;
  }

  // Has the reading thread wait for `gate`, so that what is asked for before is in its line together.
  void Hold(const absl::Notification& gate) {
    loader_->List("small.npy", {}, [&gate](const auto&) { gate.WaitForNotification(); });
  }

  const std::filesystem::path folder_;
  std::unique_ptr<Loader> loader_;
};

TEST_F(LoaderTest, ALargeFileDelaysOthersByATurnAlone) {
  Write("large.npy", uint64_t{80} << 20);
  Write("small.npy", 1000);
  absl::Notification gate;
  Hold(gate);
  std::vector<std::string> order;
  absl::BlockingCounter left(2);
  for (const std::string name : {"large", "small"}) {
    loader_->Load(name + ".npy", {}, "", Home(name), ControlOf(name), [&, name](const auto& loaded) {
      EXPECT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(loaded->size(), 1u);
      order.push_back(name);  // on one thread
      left.DecrementCount();
    });
  }
  gate.Notify();
  left.Wait();
  EXPECT_EQ(order, (std::vector<std::string>{"small", "large"}));
}

TEST_F(LoaderTest, OneThatIsCancelledBetweenItsTurnsLeavesNothing) {
  Write("large.npy", uint64_t{80} << 20);
  Write("small.npy", 1000);
  absl::Notification gate;
  Hold(gate);
  std::atomic<bool> cancelled{false};
  Control control = ControlOf("large");
  control.cancelled = &cancelled;
  absl::Status outcome;
  absl::BlockingCounter left(2);
  loader_->Load("large.npy", {}, "", Home("large"), control, [&](const auto& loaded) {
    outcome = loaded.status();
    left.DecrementCount();
  });
  loader_->Load("small.npy", {}, "", Home("small"), ControlOf("small"), [&](const auto&) {
    cancelled = true;
    left.DecrementCount();
  });
  gate.Notify();
  left.Wait();
  EXPECT_EQ(CodeOf(outcome), v1::CALL_CANCELLED);
  EXPECT_EQ(AccountOf("large").used(Quota::kDeviceBytes), 0u);
}

}  // namespace
}  // namespace kiln::server
