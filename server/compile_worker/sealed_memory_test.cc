#include "server/compile_worker/sealed_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "kiln/v1/graph.pb.h"

namespace kiln::server {
namespace {

constexpr uint64_t kMax = 64 << 20;

// Of some megabytes, so that it is written in several pieces.
v1::Graph Large() {
  v1::Graph graph;
  for (int i = 0; i < 50'000; ++i) graph.add_nodes()->set_data(std::string(static_cast<size_t>(i % 200), 'x'));
  return graph;
}

void ExpectSealed(const Descriptor& memory) {
  EXPECT_EQ(pwrite(memory.get(), "y", 1, 0), -1);
  EXPECT_EQ(ftruncate(memory.get(), 1), -1);
}

TEST(SealedMemory, HasWhatItWasGivenForGood) {
  const std::string bytes = "some bytes";
  const auto memory = SealedMemory(bytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  ExpectSealed(*memory);
  EXPECT_EQ(*ReadSealed(memory->get(), kMax), bytes);
  EXPECT_FALSE(ReadSealed(memory->get(), bytes.size() - 1).ok());
}

TEST(SealedMessages, AreTheMessages) {
  for (const v1::Graph& graph : {v1::Graph(), Large()}) {
    int left = 2;
    const auto memory = SealedMessages([&] { return left-- > 0 ? &graph : nullptr; }, [] { return absl::OkStatus(); });
    ASSERT_TRUE(memory.ok()) << memory.status();
    ExpectSealed(*memory);
    EXPECT_TRUE(*ReadSealed(memory->get(), kMax) == graph.SerializeAsString() + graph.SerializeAsString());
  }
}

TEST(SealedMessages, NoMoreIsWrittenThanIsWanted) {
  int asked = 0;
  const v1::Graph graph = Large();
  const auto memory = SealedMessages([&] { return &graph; },
                                     [&] { return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("gone"); });
  EXPECT_TRUE(absl::IsCancelled(memory.status())) << memory.status();
  EXPECT_LE(asked, 4);
}

}  // namespace
}  // namespace kiln::server
