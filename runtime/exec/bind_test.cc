#include "runtime/exec/bind.h"

#include <random>
#include <vector>

#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/drivers/null/device.h"
#include "runtime/exec/load.h"
#include "runtime/testing/programs.h"

namespace kiln::runtime {
namespace {

using hal::BufferSlice;

class BindTest : public ::testing::Test {
 protected:
  BufferSlice New(uint64_t bytes) {
    return BufferSlice::Whole(*device_->allocator().Allocate(bytes, hal::MemoryUse::kClient));
  }
  v1::ErrorDetail Detail(const absl::Status& status) { return DetailOf(status).value_or(v1::ErrorDetail()); }

  std::unique_ptr<null::Device> device_ = *null::CreateDevice({});
  // Slots 0 and 1, 16 bytes each, and one result of 16 bytes.
  std::shared_ptr<LoadedExecutable> add_ = *Load(testing::AddProgram(4, device_->target()), *device_);
  // Slot 7, written, 16 bytes; result 0 is it.
  std::shared_ptr<LoadedExecutable> double_ = *Load(testing::DoubleProgram(4, device_->target()), *device_);
};

TEST_F(BindTest, AcceptsBuffersViewsAndOneBufferTwice) {
  const BufferSlice a = New(16), large = New(64);
  EXPECT_TRUE(CheckParameters(*add_, {a, New(16)}).ok());
  EXPECT_TRUE(CheckParameters(*add_, {a, {large.buffer, 20, 16}}).ok());
  EXPECT_TRUE(CheckParameters(*add_, {a, a}).ok());
}

TEST_F(BindTest, NamesWhatIsWrongAndTheSlot) {
  const auto other = *null::CreateDevice({.name = "NULL:1"});
  const BufferSlice a = New(16), large = New(64);
  const BufferSlice foreign = BufferSlice::Whole(*other->allocator().Allocate(16, hal::MemoryUse::kClient));
  const struct {
    BufferSlice second;
    v1::ErrorCode code;
  } kCases[] = {
      {{}, v1::MISSING_ARGUMENT},
      {{large.buffer, 56, 16}, v1::OUT_OF_BOUNDS},
      {{large.buffer, ~uint64_t{0}, 16}, v1::OUT_OF_BOUNDS},
      {large, v1::BUFFER_SIZE_MISMATCH},
      {{large.buffer, 2, 16}, v1::BUFFER_DTYPE_MISMATCH},
      {foreign, v1::BUFFER_DEVICE_MISMATCH},
  };
  for (const auto& test : kCases) {
    const v1::ErrorDetail detail = Detail(CheckParameters(*add_, {a, test.second}));
    EXPECT_EQ(detail.code(), test.code);
    EXPECT_EQ(detail.slot(), 1);
  }
}

TEST_F(BindTest, CountsArguments) {
  const BufferSlice a = New(16);
  const v1::ErrorDetail missing = Detail(CheckParameters(*add_, {a}));
  EXPECT_EQ(missing.code(), v1::MISSING_ARGUMENT);
  EXPECT_EQ(missing.slot(), 1);
  EXPECT_EQ(Detail(CheckParameters(*double_, {})).slot(), 7);
  EXPECT_EQ(Detail(CheckParameters(*add_, {a, a, a})).code(), v1::UNKNOWN_ARGUMENT);
}

TEST_F(BindTest, AWrittenParameterSharesNothing) {
  v1::Executable executable = testing::AddProgram(4, device_->target());
  executable.mutable_signature()->mutable_parameters(1)->set_written(true);
  const auto program = *Load(executable, *device_);
  const BufferSlice large = New(64);
  EXPECT_TRUE(CheckParameters(*program, {BufferSlice{large.buffer, 0, 16}, {large.buffer, 16, 16}}).ok());
  const v1::ErrorDetail detail =
      Detail(CheckParameters(*program, {BufferSlice{large.buffer, 0, 16}, {large.buffer, 12, 16}}));
  EXPECT_EQ(detail.code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(detail.slot(), 1);
}

// The executable of a kernel over bytes: `written` says of each parameter whether it
// is stored to.
v1::Executable BytesProgram(const std::vector<bool>& written, uint64_t bytes, const v1::Target& target) {
  v1::Executable executable;
  *executable.mutable_target() = target;
  for (size_t i = 0; i < written.size(); ++i) {
    v1::Signature::Parameter* parameter = executable.mutable_signature()->add_parameters();
    parameter->set_slot(static_cast<uint32_t>(10 + i));
    parameter->set_dtype(v1::UINT8);
    parameter->add_shape(static_cast<int64_t>(bytes));
    parameter->set_bytes(bytes);
    parameter->set_written(written[i]);
  }
  return executable;
}

// Against the definition: every written slice with every other.
TEST_F(BindTest, SharedBytesAreFoundAsTheDefinitionSays) {
  std::mt19937 random(7);
  const BufferSlice large[] = {New(64), New(64)};
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<bool> written;
    std::vector<BufferSlice> slices;
    const uint64_t bytes = random() % 4 == 0 ? 0 : 1 + random() % 6;
    const size_t count = 1 + random() % 6;
    for (size_t i = 0; i < count; ++i) {
      written.push_back(random() % 3 == 0);
      slices.push_back({large[random() % 2].buffer, random() % (65 - bytes), bytes});
    }
    bool shared = false;
    for (size_t i = 0; i < count; ++i) {
      for (size_t j = 0; j < count; ++j) shared |= i != j && written[i] && hal::Overlap(slices[i], slices[j]);
    }
    const auto program = *Load(BytesProgram(written, bytes, device_->target()), *device_);
    const absl::Status status = CheckParameters(*program, slices);
    ASSERT_EQ(status.ok(), !shared) << status;
    if (!shared) continue;
    ++refused;
    const v1::ErrorDetail detail = Detail(status);
    EXPECT_EQ(detail.code(), v1::BAD_ARGUMENT);
    ASSERT_LT(detail.slot() - 10, count);
    EXPECT_TRUE(written[detail.slot() - 10]) << status;
  }
  EXPECT_GT(refused, 100);
}

// Comparing each with each would take minutes.
TEST_F(BindTest, ManyWrittenParametersTakeNoLonger) {
  constexpr size_t kCount = 65'000;
  const auto program = *Load(BytesProgram(std::vector<bool>(kCount, true), 8, device_->target()), *device_);
  const BufferSlice large = New(8 * kCount);
  std::vector<BufferSlice> slices;
  for (size_t i = 0; i < kCount; ++i) slices.push_back({large.buffer, 8 * (kCount - 1 - i), 8});
  for (int round = 0; round < 10; ++round) ASSERT_TRUE(CheckParameters(*program, slices).ok());
  slices[400].offset += 4;
  EXPECT_EQ(Detail(CheckParameters(*program, slices)).code(), v1::BAD_ARGUMENT);
}

TEST_F(BindTest, ChecksResultBuffers) {
  const BufferSlice a = New(16), b = New(16), out = New(16), large = New(128);
  EXPECT_TRUE(CheckResults(*add_, {a, b}, {out}).ok());
  EXPECT_TRUE(CheckResults(*add_, {a, b}, {BufferSlice{large.buffer, 64, 16}}).ok());
  EXPECT_TRUE(CheckResults(*double_, {a}, {BufferSlice()}).ok());
  EXPECT_EQ(Detail(CheckResults(*double_, {a}, {out})).code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(Detail(CheckResults(*add_, {a, b}, {out, out})).code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(Detail(CheckResults(*add_, {a, b}, {a})).code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(Detail(CheckResults(*add_, {a, b}, {BufferSlice()})).code(), v1::MISSING_ARGUMENT);
  EXPECT_EQ(Detail(CheckResults(*add_, {a, b}, {large})).code(), v1::BUFFER_SIZE_MISMATCH);
  EXPECT_EQ(Detail(CheckResults(*add_, {a, b}, {BufferSlice{large.buffer, 4, 16}})).code(), v1::BUFFER_DTYPE_MISMATCH);
}

}  // namespace
}  // namespace kiln::runtime
