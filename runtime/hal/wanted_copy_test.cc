#include "runtime/hal/wanted_copy.h"

#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace kiln::runtime::hal {
namespace {

// Numbers that differ from piece to piece.
std::string Pattern(uint64_t bytes) {
  std::string text(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 131 / 127);
  return text;
}

TEST(WantedCopy, CopiesAsMemmoveDoes) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kWantedPiece, 3 * kWantedPiece + 5}) {
    const std::string from = Pattern(bytes);
    std::string to(bytes, '\0');
    EXPECT_TRUE(CopyWhileWanted(to.data(), from.data(), bytes, {}).ok());
    EXPECT_EQ(to, from);
  }
}

TEST(WantedCopy, WhatOverlapsIsReadFirst) {
  constexpr uint64_t kBytes = 3 * kWantedPiece;
  const std::pair<uint64_t, uint64_t> ways[] = {{0, 100}, {100, 0}, {0, kWantedPiece}, {kWantedPiece, 0}, {7, 7}};
  for (const auto& [from, to] : ways) {
    std::string got = Pattern(kBytes + kWantedPiece), expected = got;
    std::memmove(expected.data() + to, expected.data() + from, kBytes);
    EXPECT_TRUE(CopyWhileWanted(got.data() + to, got.data() + from, kBytes, {}).ok());
    EXPECT_EQ(got, expected);
  }
}

TEST(WantedCopy, WhatIsNotWantedIsNotBegun) {
  const std::atomic<bool> cancelled{true};
  const std::string from = Pattern(3 * kWantedPiece), before(from.size(), 'b');
  std::string to = before;
  const absl::Status status = CopyWhileWanted(to.data(), from.data(), from.size(), {.cancelled = &cancelled});
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_FALSE(IsPartly(status));
  EXPECT_EQ(to, before);
}

// The flag lies where the copy writes: its first piece is what cancels it.
TEST(WantedCopy, AStopIsSeenAfterAPiece) {
  constexpr uint64_t kPieces = 3;
  constexpr uint64_t kBytes = kPieces * kWantedPiece;
  for (const bool from_the_end : {false, true}) {
    std::vector<char> memory(3 * kBytes, '\0');
    char* const source = memory.data() + kBytes;
    std::memset(source, 1, kBytes);
    char* const target = from_the_end ? memory.data() + 2 * kBytes : memory.data();
    const auto* const cancelled = new (target + (from_the_end ? kBytes - 1 : 0)) std::atomic<bool>(false);
    const absl::Status status = CopyWhileWanted(target, source, kBytes, {.cancelled = cancelled});
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_TRUE(IsPartly(status));
    const auto copied = [&](uint64_t piece) { return target[piece * kWantedPiece + 1] == 1; };
    EXPECT_EQ(copied(0), !from_the_end);
    EXPECT_FALSE(copied(1));
    EXPECT_EQ(copied(2), from_the_end);
  }
}

TEST(InWantedPieces, EachByteIsInOne) {
  std::vector<std::pair<uint64_t, uint64_t>> pieces;
  const absl::Status status =
      InWantedPieces(2 * kWantedPiece + 3, {}, [&](uint64_t begin, uint64_t end) { pieces.emplace_back(begin, end); });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(pieces,
            (std::vector<std::pair<uint64_t, uint64_t>>{
                {0, kWantedPiece}, {kWantedPiece, 2 * kWantedPiece}, {2 * kWantedPiece, 2 * kWantedPiece + 3}}));
}

TEST(Partly, IsANoteBesideTheFailure) {
  const absl::Status failure = absl::CancelledError("x");
  EXPECT_FALSE(IsPartly(failure));
  EXPECT_FALSE(IsPartly(absl::OkStatus()));
  EXPECT_TRUE(IsPartly(Partly(failure)));
  EXPECT_EQ(Partly(failure).code(), failure.code());
  EXPECT_EQ(Partly(failure).message(), failure.message());
  EXPECT_EQ(WithoutNote(Partly(failure)), failure);
}

}  // namespace
}  // namespace kiln::runtime::hal
