// Tensor maps of kernels: made by NVIDIA's driver for where an operand is, and refused elsewhere.
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/drivers/cuda/devices.h"
#include "tests/drivers/gpu_fixture.h"

namespace kiln::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// One warp. The copy engine brings 32 floats of the second operand, which item after item writes to the first; where
// the second is not at a multiple of 16, items load for themselves.
constexpr char kPtx[] = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 4 k_param_0, .param .u64 .ptr .global .align 4 k_param_1,
                  .param .align 64 .b8 k_param_2[128])
.maxntid 32, 1, 1
{
  .reg .pred %p<4>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<12>;
  .shared .align 128 .b8 box[128];
  .shared .align 8 .b64 barrier;
  ld.param.b64 %rd1, [k_param_0];
  ld.param.b64 %rd2, [k_param_1];
  mov.b64 %rd3, k_param_2;
  cvta.param.u64 %rd4, %rd3;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd2, %rd5;
  add.s64 %rd7, %rd1, %rd5;
  and.b64 %rd8, %rd2, 15;
  setp.ne.b64 %p1, %rd8, 0;
  @%p1 bra $plain;
  setp.ne.b32 %p2, %r1, 0;
  @%p2 bra $ready;
  mbarrier.init.shared.b64 [barrier], 1;
  fence.mbarrier_init.release.cluster;
  mov.b64 %rd9, box;
  mov.b32 %r2, 0;
  mbarrier.arrive.expect_tx.shared.b64 %rd10, [barrier], 128;
  cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%rd9], [%rd4, {%r2}], [barrier];
$ready:
  bar.sync 0;
$wait:
  mbarrier.try_wait.parity.shared.b64 %p3, [barrier], 0;
  @!%p3 bra $wait;
  cvt.u32.u64 %r3, %rd5;
  mov.b32 %r4, box;
  add.s32 %r4, %r4, %r3;
  ld.shared.b32 %r5, [%r4];
  bra $store;
$plain:
  ld.global.b32 %r5, [%rd6];
$store:
  st.global.b32 [%rd7], %r5;
  ret;
}
)";
constexpr char kEncode[] = "cuTensorMapEncodeTiled";

v1::Executable WithMap(v1::Executable executable) {
  v1::TensorMap& map = *executable.mutable_kernels(0)->mutable_launch()->add_tensor_maps();
  map.set_operand(1);
  map.set_dtype(v1::FLOAT32);
  map.add_sizes(32);
  map.add_box(32);
  return executable;
}

class GpuTensorMapsTest : public GpuDeviceTest {
 protected:
  void SetUp() override {
    Open();
    program_ = WithMap(machine_->Program());
    program_.set_object(kPtx);
  }
  void TearDown() override {
    module_.reset();
    input_ = output_ = {};
  }
  void Load() {
    auto module = device().LoadModule(program_);
    ASSERT_TRUE(module.ok()) << module.status();
    module_ = *std::move(module);
    input_ = New(4096);
    output_ = New(128);
  }
  // So many steps on the floats that begin at that byte of the input.
  absl::Status Launch(uint64_t offset, size_t steps = 1) {
    const std::vector<runtime::hal::LaunchStep> list(steps, {0, 0, 2});
    void* const operands[] = {output_.device_data(), static_cast<char*>(input_.device_data()) + offset};
    uint32_t launched = 0;
    absl::Status status = module_->LaunchAll(list, operands, {}, launched);
    status.Update(device().FinishLaunches());
    return status;
  }
  std::string Output() { return *Read(device(), output_); }

  v1::Executable program_;
  std::unique_ptr<runtime::hal::Module> module_;
  BufferSlice input_, output_;
};

TEST_P(GpuTensorMapsTest, AreMadeOnceForWhereAnOperandIs) {
  Load();
  ASSERT_EQ(Write(device(), Pattern(4096), input_), absl::OkStatus());
  for (const uint64_t offset : {0, 160, 0, 160}) {
    ASSERT_EQ(Launch(offset), absl::OkStatus());
    EXPECT_EQ(Output(), Pattern(4096).substr(offset, 128));
  }
  EXPECT_THAT(fake_.Calls(kEncode), ElementsAre("cuTensorMapEncodeTiled 1 axes", "cuTensorMapEncodeTiled 1 axes"));
  // Of many, the oldest goes, and comes again.
  for (uint64_t offset = 0; offset < 160; offset += 16) ASSERT_EQ(Launch(offset), absl::OkStatus());
  EXPECT_THAT(fake_.Calls(kEncode), SizeIs(11));
  ASSERT_EQ(Launch(144), absl::OkStatus());
  EXPECT_THAT(fake_.Calls(kEncode), SizeIs(11));
  ASSERT_EQ(Launch(0), absl::OkStatus());
  EXPECT_EQ(Output(), Pattern(4096).substr(0, 128));
  EXPECT_THAT(fake_.Calls(kEncode), SizeIs(12));
}

TEST_P(GpuTensorMapsTest, ThereIsNoneOfWhatTheEngineCannotRead) {
  Load();
  ASSERT_EQ(Write(device(), Pattern(4096), input_), absl::OkStatus());
  ASSERT_EQ(Launch(20), absl::OkStatus());
  EXPECT_EQ(Output(), Pattern(4096).substr(20, 128));
  EXPECT_THAT(fake_.Calls(kEncode), SizeIs(0));
}

TEST_P(GpuTensorMapsTest, GraphsKeepThem) {
  Load();
  for (int iteration = 0; iteration < 3; ++iteration) {
    ASSERT_EQ(Write(device(), Pattern(4096, iteration), input_), absl::OkStatus());
    ASSERT_EQ(Launch(32, 5), absl::OkStatus());
    EXPECT_EQ(Output(), Pattern(4096, iteration).substr(32, 128));
  }
  EXPECT_THAT(fake_.Calls(machine_->Entry("graph")), SizeIs(2));
  EXPECT_THAT(fake_.Calls(kEncode), SizeIs(1));
}

TEST_P(GpuTensorMapsTest, ADriverThatRefusesOne) {
  Load();
  fake_(std::string("fail ") + kEncode + " 1 1");
  const absl::Status status = Launch(0);
  EXPECT_EQ(DetailOf(status)->code(), v1::INTERNAL_FAULT);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(kEncode), HasSubstr("invalid argument"), HasSubstr("kernel k")));
  EXPECT_EQ(Launch(0), absl::OkStatus());
  // One that the driver itself would refuse.
  program_.mutable_kernels(0)->mutable_launch()->mutable_tensor_maps(0)->set_box(0, 257);
  Load();
  EXPECT_EQ(DetailOf(Launch(0))->code(), v1::INTERNAL_FAULT);
  program_.mutable_kernels(0)->mutable_launch()->mutable_tensor_maps(0)->set_operand(2);
  EXPECT_EQ(DetailOf(device().LoadModule(program_).status())->field(), "launch.tensor_maps");
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuTensorMapsTest, ::testing::Values(&MakeCudaMachine));

void ExpectRefused(Device& device, const v1::Executable& program, const char* why) {
  const absl::Status status = device.LoadModule(WithMap(program)).status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(DetailOf(status)->code(), v1::NOT_IMPLEMENTED) << status;
  EXPECT_EQ(DetailOf(status)->field(), "launch.tensor_maps");
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("kernel k (copy 32)"), HasSubstr(why)));
  EXPECT_TRUE(device.LoadModule(program).ok());
}

TEST(GpuTensorMaps, AnOldDriverHasNone) {
  const auto program = MakeCudaMachine()->Program();
  Fake fake("fake_cuda/libfake_cuda_11.so");
  const runtime::gpu::Found found = runtime::cuda::FindDevices({.library = fake.path()});
  ASSERT_THAT(found.devices, SizeIs(1));
  ExpectRefused(*found.devices[0], program, "the driver has no cuTensorMapEncodeTiled; install a newer driver");
}

TEST(GpuTensorMaps, AmdsCardsHaveNone) {
  const auto machine = MakeHipMachine();
  const runtime::gpu::Found found = machine->Find();
  ASSERT_THAT(found.devices, SizeIs(1));
  ExpectRefused(*found.devices[0], machine->Program(), "HIP:0 has not: there is no copy engine");
}

}  // namespace
}  // namespace kiln::testing
