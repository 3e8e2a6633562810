// What the drivers say of machines that lack something, and of cards there is no code for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/target/gpu/architectures.h"
#include "runtime/drivers/cuda/architectures.h"
#include "runtime/drivers/cuda/devices.h"
#include "runtime/drivers/hip/devices.h"
#include "runtime/drivers/hip/topology.h"
#include "tests/drivers/gpu_machine.h"

namespace kiln::testing {
namespace {

using runtime::gpu::Found;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CudaFoundTest : public ::testing::Test {
 protected:
  Found Find() { return machine_->Find(); }
  std::unique_ptr<GpuMachine> machine_ = MakeCudaMachine();
  Fake& fake_ = machine_->fake();
};

class HipFoundTest : public ::testing::Test {
 protected:
  Found Find() { return machine_->Find(); }
  std::unique_ptr<GpuMachine> machine_ = MakeHipMachine();
  Fake& fake_ = machine_->fake();
};

TEST_F(CudaFoundTest, NoLibrary) {
  const Found found = runtime::cuda::FindDevices({.library = "/no/libcuda.so.1"});
  EXPECT_THAT(found.devices, IsEmpty());
  EXPECT_THAT(found.absent, ElementsAre(AllOf(HasSubstr("/no/libcuda.so.1"), HasSubstr("install NVIDIA's driver"))));
}

TEST_F(CudaFoundTest, ALibraryWithoutAFunction) {
  // Any other library.
  const Found found = runtime::cuda::FindDevices({.library = "libc.so.6"});
  EXPECT_THAT(found.absent, ElementsAre("libc.so.6 has no cuInit; install a newer driver"));
}

TEST_F(CudaFoundTest, ADriverThatDoesNotStart) {
  fake_("set init 100");
  EXPECT_THAT(Find().absent,
              ElementsAre(AllOf(HasSubstr("cuInit: CUDA_ERROR_NO_DEVICE"), HasSubstr("CUDA_VISIBLE_DEVICES"))));
  fake_("set init 34");
  EXPECT_THAT(Find().absent, ElementsAre(HasSubstr("toolkit's stand-in")));
  fake_("set init 0");
  fake_("set devices 0");
  EXPECT_THAT(Find().absent, ElementsAre(HasSubstr("lists no card")));
}

TEST_F(CudaFoundTest, CardsThereIsNoCodeFor) {
  fake_("set major 7");
  fake_("set minor 5");
  const Found old = Find();
  EXPECT_THAT(old.devices, IsEmpty());
  EXPECT_THAT(old.absent, ElementsAre(AllOf(HasSubstr("CUDA:0, Fake card"), HasSubstr("7.5"), HasSubstr("8.0"))));
  EXPECT_EQ(fake_("live"), "memory 0, pinned 0, streams 0, events 0, graphs 0, modules 0, contexts 0, communicators 0");
}

TEST_F(CudaFoundTest, DriversThatAreTooOld) {
  fake_("set driver 11080");
  EXPECT_THAT(Find().absent, ElementsAre(AllOf(HasSubstr("CUDA 11.8"), HasSubstr("sm_90a needs CUDA 12.0"),
                                               HasSubstr("newer driver"))));
  fake_("set major 8");
  EXPECT_EQ(Find().devices.at(0)->target().arch(), "sm_80");
}

TEST_F(CudaFoundTest, EachCapabilityHasItsCode) {
  const struct {
    int major, minor;
    const char* arch;
  } kCases[] = {{8, 0, "sm_80"},  {8, 6, "sm_80"},    {8, 9, "sm_80"},  {9, 0, "sm_90a"}, {10, 0, "sm_100a"},
                {10, 3, "sm_80"}, {12, 0, "sm_120a"}, {12, 1, "sm_80"}, {13, 0, "sm_80"}};
  for (const auto& test : kCases) {
    ASSERT_NE(runtime::cuda::ArchitectureFor(test.major, test.minor), nullptr);
    EXPECT_STREQ(runtime::cuda::ArchitectureFor(test.major, test.minor)->name, test.arch) << test.major << test.minor;
  }
  EXPECT_EQ(runtime::cuda::ArchitectureFor(7, 5), nullptr);
  EXPECT_EQ(runtime::cuda::ArchitectureFor(6, 0), nullptr);
}

// The driver says what it runs, the compiler what it makes code for; neither knows the other.
TEST(Architectures, AreThoseOfTheCompiler) {
  std::set<std::string> nvidia;
  for (int version = 0; version < 2000; ++version) {
    const auto* found = runtime::cuda::ArchitectureFor(version / 10, version % 10);
    if (found != nullptr) nvidia.insert(found->name);
  }
  std::set<std::string> made;
  for (const compiler::GpuArchitecture& known : compiler::GpuArchitectures()) {
    if (known.kind == v1::Target::NVPTX) made.insert(known.name);
  }
  EXPECT_EQ(nvidia, made);
}

TEST_F(HipFoundTest, NoLibrary) {
  const Found found = runtime::hip::FindDevices({.library = "/no/libamdhip64.so"});
  EXPECT_THAT(found.absent,
              ElementsAre(AllOf(HasSubstr("/no/libamdhip64.so"), HasSubstr("install ROCm's HIP runtime"))));
  if (std::filesystem::exists("/dev/kfd")) GTEST_SKIP() << "this machine has AMD's driver";
  EXPECT_THAT(runtime::hip::FindDevices({}).absent, ElementsAre(HasSubstr("there is no /dev/kfd")));
}

TEST_F(HipFoundTest, ARuntimeThatDoesNotStart) {
  fake_("set devices 0");
  EXPECT_THAT(Find().absent, ElementsAre(AllOf(HasSubstr("hipErrorNoDevice"), HasSubstr("/dev/kfd"))));
  fake_("set init 101");
  EXPECT_THAT(Find().absent, ElementsAre(HasSubstr("hipInit: hipErrorInvalidDevice")));
}

TEST_F(HipFoundTest, CardsTheKernelDoesNotListOrThereIsNoCodeFor) {
  const std::string nodes = absl::StrCat(std::getenv("TEST_TMPDIR"), "/other_nodes");
  const auto find = [&] { return runtime::hip::FindDevices({.library = fake_.path(), .nodes = nodes}); };
  EXPECT_THAT(find().absent,
              ElementsAre(AllOf(HasSubstr("HIP:0, Fake accelerator, at 0000:01:00.0"), HasSubstr(nodes))));
  std::filesystem::create_directories(nodes + "/0");
  std::ofstream(nodes + "/0/properties") << "gfx_target_version 100306\nlocation_id 256\ndomain 0\n";
  EXPECT_THAT(find().absent, ElementsAre(AllOf(HasSubstr("is gfx1036"), HasSubstr("gfx942, gfx1100"))));
}

TEST_F(HipFoundTest, EachArchitectureOfTheCompilersIsDriven) {
  const std::string nodes = absl::StrCat(std::getenv("TEST_TMPDIR"), "/each");
  std::filesystem::create_directories(nodes + "/0");
  for (const uint32_t version : {90010, 90402, 110000, 120000}) {
    std::ofstream(nodes + "/0/properties") << "gfx_target_version " << version << "\nlocation_id 256\ndomain 0\n";
    const Found found = runtime::hip::FindDevices({.library = fake_.path(), .nodes = nodes});
    ASSERT_EQ(found.devices.size(), 1u) << version;
    const auto target = compiler::GpuTarget(found.devices[0]->target().arch());
    ASSERT_TRUE(target.has_value());
    EXPECT_EQ(target->triple(), found.devices[0]->target().triple());
  }
}

TEST(Topology, NamesArchitecturesAsLlvmDoes) {
  EXPECT_EQ(runtime::hip::ArchName(90010), "gfx90a");
  EXPECT_EQ(runtime::hip::ArchName(90402), "gfx942");
  EXPECT_EQ(runtime::hip::ArchName(110000), "gfx1100");
  EXPECT_EQ(runtime::hip::ArchName(120001), "gfx1201");
  EXPECT_FALSE(runtime::hip::FindNode("/no/nodes", "0000:01:00.0").has_value());
  EXPECT_FALSE(runtime::hip::FindNode("/no/nodes", "nowhere").has_value());
}

}  // namespace
}  // namespace kiln::testing
