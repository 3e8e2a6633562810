#include "server/engine/memory/buffer_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"

namespace kiln::server {
namespace {

// Memory that counts itself.
class CountedBuffer final : public runtime::hal::Buffer {
 public:
  explicit CountedBuffer(int* alive) : alive_(alive) { ++*alive_; }
  ~CountedBuffer() override { --*alive_; }
  uint64_t bytes() const override { return sizeof(data_); }
  const runtime::hal::Device* device() const override { return nullptr; }
  void* device_data() const override { return data_; }
  void* host_data() const override { return data_; }

 private:
  mutable char data_[64];
  int* alive_;
};

BufferTable::Record RecordOf(std::shared_ptr<runtime::hal::Buffer> buffer) {
  auto record = std::make_shared<BufferRecord>();
  record->slice = runtime::hal::BufferSlice::Whole(std::move(buffer));
  return record;
}

TEST(BufferTableTest, FindsWhatWasAdded) {
  int alive = 0;
  BufferTable table;
  auto record = std::make_shared<BufferRecord>(*RecordOf(std::make_shared<CountedBuffer>(&alive)));
  record->dtype = v1::FLOAT32;
  record->shape = {4, 4};
  const uint64_t handle = *table.Add(std::move(record));
  const auto found = table.Find(handle);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)->dtype, v1::FLOAT32);
  EXPECT_EQ((*found)->shape, (Shape{4, 4}));
  EXPECT_EQ((*found)->slice.bytes, 64u);
  EXPECT_EQ(table.size(), 1u);
}

TEST(BufferTableTest, UnknownHandleIsNamed) {
  BufferTable table;
  const absl::Status status = table.Find(0x1234).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(DetailOf(status)->code(), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(DetailOf(status)->handle(), 0x1234u);
}

TEST(BufferTableTest, MemoryLivesUntilItsLastHandle) {
  int alive = 0;
  BufferTable table;
  auto buffer = std::make_shared<CountedBuffer>(&alive);
  const uint64_t whole = *table.Add(RecordOf(buffer));
  const uint64_t view = *table.Add(RecordOf(buffer));
  buffer.reset();
  ASSERT_TRUE(table.Free({whole}).ok());
  EXPECT_EQ(alive, 1);
  EXPECT_TRUE(table.Find(view).ok());
  ASSERT_TRUE(table.Free({view}).ok());
  EXPECT_EQ(alive, 0);
}

TEST(BufferTableTest, FreeIsAllOrNothing) {
  int alive = 0;
  BufferTable table;
  const uint64_t a = *table.Add(RecordOf(std::make_shared<CountedBuffer>(&alive)));
  const uint64_t b = *table.Add(RecordOf(std::make_shared<CountedBuffer>(&alive)));
  EXPECT_EQ(DetailOf(table.Free({a, 99, b}))->handle(), 99u);
  EXPECT_EQ(DetailOf(table.Free({a, b, a}))->handle(), a);
  EXPECT_EQ(alive, 2);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_TRUE(table.Free({a, b}).ok());
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(table.Free({a}).ok());
  EXPECT_TRUE(table.Free({}).ok());
}

void ExpectTooMany(const absl::Status& status, uint64_t max_value, const std::string& field) {
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  const v1::ErrorDetail detail = DetailOf(status).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::OUT_OF_MEMORY) << status;
  EXPECT_EQ(detail.limit(), "handles");
  EXPECT_EQ(detail.limit_value(), max_value);
  EXPECT_EQ(detail.field(), field);
}

TEST(BufferTableTest, HandlesAreCountedForEachSessionAndForAll) {
  int alive = 0;
  BufferTable table({.all = 5, .of_session = 2});
  const auto add = [&](const SessionPtr& owner) {
    auto record = std::make_shared<BufferRecord>(*RecordOf(std::make_shared<CountedBuffer>(&alive)));
    record->owner = owner;
    return table.Add(std::move(record));
  };
  const auto a = std::make_shared<Session>(), b = std::make_shared<Session>();
  const uint64_t first = *add(a);
  ASSERT_TRUE(add(a).ok());
  ExpectTooMany(add(a).status(), 2, kSessionHeader);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(alive, 2);
  ASSERT_TRUE(add(b).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(add(nullptr).ok());
  ExpectTooMany(add(nullptr).status(), 5, "");
  ExpectTooMany(add(b).status(), 5, "");
  EXPECT_EQ(table.size(), 5u);
  EXPECT_EQ(alive, 5);
  ASSERT_TRUE(table.Free({first}, a.get()).ok());
  EXPECT_TRUE(add(a).ok());
  EXPECT_EQ(alive, 5);
}

TEST(BufferTableTest, EachHandleIsFreedOnceHoweverManyTry) {
  int alive = 0;
  BufferTable table;
  std::vector<uint64_t> handles;
  for (int i = 0; i < 64; ++i) handles.push_back(*table.Add(RecordOf(std::make_shared<CountedBuffer>(&alive))));
  EXPECT_EQ(std::set<uint64_t>(handles.begin(), handles.end()).size(), 64u);
  std::atomic<int> successes{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<uint64_t> mine = handles;
      if (t % 2 == 1) std::reverse(mine.begin(), mine.end());
      if (table.Free(mine).ok()) ++successes;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(successes, 1);
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace kiln::server
