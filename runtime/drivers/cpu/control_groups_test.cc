#include "runtime/drivers/cpu/control_groups.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace kiln::runtime::cpu {
namespace {

constexpr uint64_t kNoBytes = std::numeric_limits<uint64_t>::max();
constexpr double kNoCpus = std::numeric_limits<double>::infinity();

// A machine of files.
class Machine {
 public:
  Machine() { std::filesystem::remove_all(root_); }

  Machine& Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
    return *this;
  }
  GroupLimits Read() const { return ReadGroupLimits(root_); }

 private:
  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

constexpr char kMounts2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kMounts1[] =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST(ControlGroupsTest, NothingThereLimitsNothing) {
  const GroupLimits none = Machine().Read();
  EXPECT_EQ(none.memory_bytes, kNoBytes);
  EXPECT_EQ(none.cpus, kNoCpus);
}

TEST(ControlGroupsTest, TheLeastOfAGroupAndThoseAroundIt) {
  Machine machine;
  machine.Write("/proc/self/mountinfo", kMounts2).Write("/proc/self/cgroup", "0::/pool.slice/kilnd.service\n");
  machine.Write("/sys/fs/cgroup/pool.slice/kilnd.service/memory.max", "max\n");
  machine.Write("/sys/fs/cgroup/pool.slice/kilnd.service/cpu.max", "250000 100000\n");
  machine.Write("/sys/fs/cgroup/pool.slice/memory.max", "8589934592\n");
  machine.Write("/sys/fs/cgroup/pool.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(machine.Read().memory_bytes, uint64_t{8} << 30);
  EXPECT_EQ(machine.Read().cpus, 2.5);
  machine.Write("/sys/fs/cgroup/pool.slice/cpu.max", "100000 100000\n");
  machine.Write("/sys/fs/cgroup/pool.slice/kilnd.service/memory.max", "1073741824\n");
  EXPECT_EQ(machine.Read().memory_bytes, uint64_t{1} << 30);
  EXPECT_EQ(machine.Read().cpus, 1.0);
}

TEST(ControlGroupsTest, Version1HasATreeForEachResource) {
  Machine machine;
  machine.Write("/proc/self/mountinfo", kMounts1);
  machine.Write("/proc/self/cgroup", "4:memory:/job_7/step_0\n2:cpu,cpuacct:/job_7\n0::/other\n");
  machine.Write("/sys/fs/cgroup/memory/job_7/memory.limit_in_bytes", "2147483648\n");
  machine.Write("/sys/fs/cgroup/memory/job_7/step_0/memory.limit_in_bytes", "9223372036854771712\n");
  machine.Write("/sys/fs/cgroup/cpu,cpuacct/job_7/cpu.cfs_quota_us", "-1\n");
  machine.Write("/sys/fs/cgroup/cpu,cpuacct/job_7/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(machine.Read().memory_bytes, uint64_t{2} << 30);
  EXPECT_EQ(machine.Read().cpus, kNoCpus);
  machine.Write("/sys/fs/cgroup/cpu,cpuacct/job_7/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(machine.Read().cpus, 0.5);
}

// Docker without a namespace of groups: the mount is the container's own, the name the host's.
TEST(ControlGroupsTest, AContainersMountIsItsOwnGroup) {
  Machine machine;
  machine.Write("/proc/self/mountinfo",
                "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
                "36 31 0:33 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  machine.Write("/proc/self/cgroup", "4:memory:/docker/abcdef\n2:cpu:/elsewhere\n");
  machine.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n");
  machine.Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  machine.Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(machine.Read().memory_bytes, uint64_t{1} << 20);
  EXPECT_EQ(machine.Read().cpus, 3.0);
}

TEST(ControlGroupsTest, WhatIsNoLimitIsNone) {
  Machine machine;
  machine.Write("/proc/self/mountinfo", absl::StrCat("garbage\n\n - \n", kMounts2));
  machine.Write("/sys/fs/cgroup/memory.max", "lots\n").Write("/sys/fs/cgroup/cpu.max", "1 0\n");
  for (const char* group : {"garbage\n0::/../outside\n", "0::nowhere\n", "0::\n"}) {
    machine.Write("/proc/self/cgroup", group);
    EXPECT_EQ(machine.Read().memory_bytes, kNoBytes);
    EXPECT_EQ(machine.Read().cpus, kNoCpus);
  }
}

}  // namespace
}  // namespace kiln::runtime::cpu
