#include "runtime/drivers/cpu/core/known_core.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "runtime/drivers/cpu/core/measure_core.h"

namespace kiln::runtime::cpu {
namespace {

using Core = v1::Target::Tuning::Core;

constexpr char kCpu[] = "GenuineIntel 6 207 2 Intel(R) Xeon(R) Processor";
constexpr char kFile[] = "core-GenuineIntel-6-207-2-Intel-R-Xeon-R-Processor.txtpb";

class FindCoreTest : public ::testing::Test {
 protected:
  FindCoreTest() { std::filesystem::remove_all(folder_); }

  KnownCore Find(const std::string& folder, const std::string& cpu = kCpu) {
    return FindCore(folder, cpu, [this] {
      ++times_;
      Core core;
      core.set_vector_bytes(64);
      core.set_fmas_per_cycle(1.9f);
      core.set_l2_store_cycles(3.8f);
      return core;
    });
  }
  void WriteFile(const std::string& text) { std::ofstream(absl::StrCat(folder_, "/", kFile)) << text; }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/cores");
  int times_ = 0;
};

TEST_F(FindCoreTest, MeasuresOnceAndReadsThen) {
  const KnownCore first = Find(folder_);
  EXPECT_TRUE(first.measured);
  EXPECT_EQ(first.file, kFile);
  EXPECT_EQ(first.read.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(first.written.ok()) << first.written;
  EXPECT_EQ(first.core.ShortDebugString(), "vector_bytes: 64 fmas_per_cycle: 2 l2_store_cycles: 4");
  const KnownCore second = Find(folder_);
  EXPECT_FALSE(second.measured);
  EXPECT_TRUE(second.read.ok());
  EXPECT_EQ(second.core.DebugString(), first.core.DebugString());
  EXPECT_EQ(times_, 1);
  // That file alone: no draft is left.
  const std::filesystem::directory_iterator files(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(FindCoreTest, MeasuresAgainWhatIsDamagedOrForeign) {
  Find(folder_);
  const std::string version = absl::StrCat("version: ", kCoreVersion);
  for (const std::string& bad : {std::string("core { fmas_per"), std::string(),
                                 absl::StrCat("cpu: 'AuthenticAMD 25 17 1' ", version, " core { vector_bytes: 64 }"),
                                 absl::StrCat("cpu: '", kCpu, "' version: 99 core { vector_bytes: 64 }"),
                                 absl::StrCat("cpu: '", kCpu, "' ", version, " core { vector_bytes: 7 }"),
                                 absl::StrCat("cpu: '", kCpu, "' ", version, std::string(1 << 17, ' '), " core {}")}) {
    WriteFile(bad);
    times_ = 0;
    const KnownCore again = Find(folder_);
    EXPECT_EQ(again.read.code(), absl::StatusCode::kDataLoss) << bad;
    EXPECT_EQ(times_, 1) << bad;
    EXPECT_TRUE(Find(folder_).read.ok());
    EXPECT_EQ(times_, 1) << bad;
  }
}

TEST_F(FindCoreTest, RoundsWhatAFileSays) {
  Find(folder_);
  WriteFile(absl::StrCat("cpu: '", kCpu, "' version: ", kCoreVersion,
                         " core { vector_bytes: 64 fma_latency: 1e30 far_bytes_per_cycle: nan }"));
  EXPECT_EQ(Find(folder_).core.ShortDebugString(), "vector_bytes: 64 fma_latency: 10");
}

TEST_F(FindCoreTest, DoesWithoutAFile) {
  EXPECT_TRUE(Find("").measured);
  EXPECT_EQ(Find("").file, "");
  EXPECT_TRUE(Find("").written.ok());
  EXPECT_TRUE(Find(folder_, "").measured);
  EXPECT_FALSE(std::filesystem::exists(folder_));
  // A folder that others may write to is not used.
  std::filesystem::create_directory(folder_);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const KnownCore open = Find(folder_);
  EXPECT_TRUE(open.measured);
  EXPECT_EQ(open.written.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(FindCoreTest, KeepsNothingWhereNothingIsMeasured) {
  const KnownCore none = FindCore(folder_, kCpu, [] { return Core(); });
  EXPECT_FALSE(none.measured);
  EXPECT_TRUE(none.written.ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST(CpuModel, IsWhatTheSystemCallsIt) {
  EXPECT_EQ(CpuModel("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n"
                     "model name\t: Intel(R) Xeon(R) Processor\nstepping\t: 2\nflags\t: fpu\n\n"
                     "processor\t: 1\nvendor_id\t: GenuineIntel\nmodel\t\t: 1\n"),
            kCpu);
  EXPECT_EQ(CpuModel(""), "");
  EXPECT_EQ(CpuModel("processor : 0\nBogoMIPS : 243.75\nFeatures : fp asimd\n"), "");
}

TEST(CoreFileName, IsOfLettersDigitsAndDashes) {
  EXPECT_EQ(CoreFileName(kCpu), kFile);
  EXPECT_EQ(CoreFileName("../../etc/passwd"), "core-etc-passwd.txtpb");
  EXPECT_EQ(CoreFileName(std::string(500, 'x')), absl::StrCat("core-", std::string(95, 'x'), ".txtpb"));
}

}  // namespace
}  // namespace kiln::runtime::cpu
