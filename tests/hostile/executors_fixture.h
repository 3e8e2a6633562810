// Executors of two tenants beside one whose programs run in the server, for tests: the program
// that has them is its own executor.
#ifndef KILN_TESTS_HOSTILE_EXECUTORS_FIXTURE_H_
#define KILN_TESTS_HOSTILE_EXECUTORS_FIXTURE_H_

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/testing/programs.h"
#include "server/executors/executors.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILN_SANITIZED 1
#elif __has_feature(thread_sanitizer)
#define KILN_SANITIZED 1
#define KILN_NO_ARENAS 1  // its address space has no room where they lie
#endif
#endif

namespace kiln::server {

namespace hal = runtime::hal;
namespace programs = runtime::testing;

// More than an executor may take beside it.
constexpr uint64_t kMemoryBytes = uint64_t{2} << 30;

inline v1::ErrorCode CodeOf(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
}

// Processes that this one has started.
inline std::set<pid_t> Children() {
  std::set<pid_t> children;
  std::error_code failed;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    std::ifstream list(task.path() / "children");
    for (pid_t pid = 0; list >> pid;) children.insert(pid);
  }
  return children;
}

// A minute is far more than it takes.
inline bool Eventually(const std::function<bool()>& condition) {
  for (const absl::Time end = absl::Now() + absl::Minutes(1); absl::Now() < end; absl::SleepFor(absl::Milliseconds(1)))
    if (condition()) return true;
  return false;
}

class ExecutorsTest : public ::testing::Test {
 protected:
  ExecutorsTest() { Make(absl::Minutes(1)); }

  void Make(absl::Duration idle, absl::Duration stop_patience = absl::Seconds(10),
            absl::Duration run_patience = absl::Hours(2)) {
    executors_ = nullptr;
    ExecutorOptions options;
    options.threads = 2;
    options.stop_patience = stop_patience;
    options.run_patience = run_patience;
    executors_ = std::make_unique<Executors>(options, servers_, log_, idle);
    ASSERT_TRUE(executors_->SetTenants({{"a", true}, {"b", true}, {"shared", false}}).ok());
  }

  hal::Device& Device(absl::string_view tenant, size_t number = 0) { return *executors_->Of(tenant)->at(number); }

  static absl::Status Launch(hal::Device& device, hal::Module& module, std::vector<void*> operands,
                             const hal::LaunchControl& control = {}) {
    absl::Status status;
    absl::Notification ended;
    device.queue().Submit(
        [&] {
          status = module.Launch(0, operands.data(), control);
          ended.Notify();
        },
        0);
    ended.WaitForNotification();
    return status;
  }

  static std::unique_ptr<hal::Module> Load(hal::Device& device, const v1::Executable& executable) {
    auto module = device.LoadModule(executable);
    EXPECT_TRUE(module.ok()) << module.status();
    return *std::move(module);
  }
  static std::unique_ptr<hal::Module> Doubling(hal::Device& device, int64_t n = 4) {
    return Load(device, programs::DoubleProgram(n, device.target()));
  }
  // A kernel that reads where nothing is.
  static absl::Status Crash(hal::Device& device, hal::Module& doubling) {
    return Launch(device, doubling, {reinterpret_cast<void*>(8)});
  }

  const std::shared_ptr<spdlog::logger> log_ =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  const DeviceList servers_ = *runtime::cpu::CreateDevices(2, {.threads = 2, .memory_limit_bytes = 2 * kMemoryBytes});
  std::unique_ptr<Executors> executors_;
};

}  // namespace kiln::server

#endif  // KILN_TESTS_HOSTILE_EXECUTORS_FIXTURE_H_
