// Transfers to, on, from and between devices (runtime/hal/queue.h, runtime/hal/device.h).
#include <algorithm>
#include <cstring>

#include "tests/hal/hal_test.h"

namespace kiln::testing {
namespace {

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

class Transfer : public HalTest {};

TEST_P(Transfer, BytesComeBackAsTheyWent) {
  // Odd sizes, and sizes around those of the pieces that drivers send.
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{4097}, 16 * kKiB, 16 * kKiB + 1,
                               256 * kKiB - 1, 4 * kMiB - 1, 4 * kMiB, 4 * kMiB + 1, 9 * kMiB + 5}) {
    const std::string text = Pattern(bytes);
    const BufferSlice slice = NewWith(text), copy = New(bytes);
    EXPECT_TRUE(BytesOf(slice) == text) << bytes;
    EXPECT_EQ(Copy(device(), slice, copy), absl::OkStatus());
    EXPECT_TRUE(BytesOf(copy) == text) << bytes;
  }
}

TEST_P(Transfer, OddPlacesAndNothingBeside) {
  const std::string before = Pattern(100);
  for (const uint64_t offset : {0, 1, 3, 41, 64, 97}) {
    for (const uint64_t bytes : {0, 1, 2, 3}) {
      const BufferSlice slice = NewWith(before);
      const std::string text = std::string("xyz").substr(0, bytes);
      ASSERT_EQ(Write(device(), text, {slice.buffer, offset, bytes}), absl::OkStatus());
      std::string after = before;
      after.replace(offset, bytes, text);
      EXPECT_TRUE(BytesOf(slice) == after) << offset << ", " << bytes;
      EXPECT_EQ(BytesOf({slice.buffer, offset, bytes}), text);
    }
  }
}

TEST_P(Transfer, HostMemoryNeedNotBeAligned) {
  for (const uint64_t bytes : {uint64_t{5}, uint64_t{70'001}, 5 * kMiB}) {
    const std::string text = Pattern(bytes);
    for (const uint64_t skew : {1, 2, 7}) {
      std::string from(bytes + skew, '?'), to(bytes + skew, '?');
      std::memcpy(from.data() + skew, text.data(), bytes);
      const BufferSlice slice = New(bytes);
      auto& queue = device().queue();
      EXPECT_EQ(Outcome([&](auto done) { queue.Write(from.data() + skew, slice, std::move(done)); }), absl::OkStatus());
      EXPECT_EQ(Outcome([&](auto done) { queue.Read(slice, to.data() + skew, std::move(done)); }), absl::OkStatus());
      EXPECT_TRUE(to == std::string(skew, '?') + text) << bytes << ", " << skew;
    }
  }
}

TEST_P(Transfer, PiecesAreOneAfterTheOther) {
  const std::string large = Pattern(4 * kMiB - 1), small = "ab", larger = Pattern(4 * kMiB + 2, 9);
  const std::vector<std::vector<absl::string_view>> lists = {
      {}, {""}, {"x"}, {"1", "", "23", "456"}, {small, large}, {large, small, larger}};
  for (const auto& pieces : lists) {
    std::string all = "<";
    for (const absl::string_view piece : pieces) all.append(piece.data(), piece.size());
    all += ">";
    const BufferSlice slice = NewWith("<" + std::string(all.size() - 2, '?') + ">");
    EXPECT_EQ(WritePieces(device(), pieces, {slice.buffer, 1, all.size() - 2}), absl::OkStatus());
    EXPECT_TRUE(BytesOf(slice) == all) << pieces.size();
  }
}

TEST_P(Transfer, CopiesBehaveAsIfTheSourceWereReadFirst) {
  constexpr uint64_t kBytes = 1000;
  for (const auto& [from, to] :
       {std::pair<uint64_t, uint64_t>{0, 500}, {500, 0}, {100, 103}, {103, 100}, {7, 7}, {0, 250}, {1, 0}}) {
    std::string text = Pattern(kBytes);
    const BufferSlice slice = NewWith(text);
    const uint64_t bytes = kBytes - std::max(from, to);
    EXPECT_EQ(Copy(device(), {slice.buffer, from, bytes}, {slice.buffer, to, bytes}), absl::OkStatus());
    std::memmove(text.data() + to, text.data() + from, bytes);
    EXPECT_TRUE(BytesOf(slice) == text) << from << " to " << to;
  }
}

TEST_P(Transfer, LargeCopiesThatOverlap) {
  const uint64_t bytes = 20 * kMiB + 1;
  std::string text = Pattern(bytes + 3);
  const BufferSlice slice = New(bytes + 3);
  for (const bool up : {true, false}) {
    ASSERT_EQ(Write(device(), text, slice), absl::OkStatus());
    const uint64_t from = up ? 0 : 3, to = up ? 3 : 0;
    EXPECT_EQ(Copy(device(), {slice.buffer, from, bytes}, {slice.buffer, to, bytes}), absl::OkStatus());
    std::memmove(text.data() + to, text.data() + from, bytes);
    EXPECT_TRUE(BytesOf(slice) == text) << up;
  }
}

TEST_P(Transfer, FillsWithAnyPattern) {
  const std::string before = Pattern(100);
  const BufferSlice slice = New(100);
  for (const std::string& pattern :
       {std::string(), std::string("a"), std::string("ab"), std::string("aa"), std::string("abc"), std::string("abcd"),
        std::string("aaaa"), std::string("abcdefgh"), std::string(3, '\0') + "z", Pattern(80)}) {
    for (const uint64_t offset : {0, 1, 4}) {
      for (const uint64_t bytes : {0, 1, 2, 3, 64, 67}) {
        ASSERT_EQ(Write(device(), before, slice), absl::OkStatus());
        ASSERT_EQ(Fill(device(), {slice.buffer, offset, bytes}, pattern), absl::OkStatus());
        std::string after = before;
        for (uint64_t i = 0; i < bytes; ++i) after[offset + i] = pattern.empty() ? '\0' : pattern[i % pattern.size()];
        EXPECT_TRUE(BytesOf(slice) == after) << pattern << " at " << offset << ", " << bytes;
      }
    }
  }
}

TEST_P(Transfer, LargeFills) {
  const uint64_t bytes = 9 * kMiB + 5;
  const BufferSlice slice = New(bytes);
  for (const std::string& pattern : {std::string("xyz"), std::string("q")}) {
    ASSERT_EQ(Fill(device(), slice, pattern), absl::OkStatus());
    std::string want(bytes, 'q');
    if (pattern.size() == 3) {
      for (uint64_t i = 0; i < bytes; ++i) want[i] = pattern[i % 3];
    }
    EXPECT_TRUE(BytesOf(slice) == want) << pattern;
  }
}

TEST_P(Transfer, NoBytesAreFine) {
  const BufferSlice empty = New(0), full = NewWith("abc");
  const BufferSlice end{full.buffer, 3, 0};
  auto& queue = device().queue();
  for (const BufferSlice& slice : {empty, end}) {
    EXPECT_EQ(Copy(device(), slice, slice), absl::OkStatus());
    EXPECT_EQ(Outcome([&](auto done) { queue.Write(nullptr, slice, std::move(done)); }), absl::OkStatus());
    EXPECT_EQ(WritePieces(device(), {}, slice), absl::OkStatus());
    EXPECT_EQ(Outcome([&](auto done) { queue.Read(slice, nullptr, std::move(done)); }), absl::OkStatus());
    EXPECT_EQ(Fill(device(), slice, "ab"), absl::OkStatus());
  }
  EXPECT_EQ(BytesOf(full), "abc");
}

TEST_P(Transfer, SlicesOutOfBoundsAreRefused) {
  const BufferSlice a = NewWith("abcdefgh"), b = NewWith("ABCDEFGH");
  for (const BufferSlice& bad :
       {BufferSlice{a.buffer, 0, 9}, BufferSlice{a.buffer, 4, 5}, BufferSlice{a.buffer, 9, 0},
        BufferSlice{a.buffer, ~uint64_t{0}, 2}, BufferSlice{nullptr, 0, 1}, BufferSlice{nullptr, 0, 0}}) {
    std::string host(16, '?');
    auto& queue = device().queue();
    for (const absl::Status& status :
         {Outcome([&](auto done) { queue.Read(bad, host.data(), std::move(done)); }),
          Outcome([&](auto done) { queue.Write(host.data(), bad, std::move(done)); }), Fill(device(), bad, "x"),
          Copy(device(), bad, {b.buffer, 0, bad.bytes}), Copy(device(), {b.buffer, 0, bad.bytes}, bad),
          WritePieces(device(), {host}, bad)}) {
      EXPECT_EQ(CodeOf(status), v1::OUT_OF_BOUNDS) << bad.offset << ", " << bad.bytes << ": " << status;
    }
    EXPECT_EQ(host, std::string(16, '?'));
  }
  EXPECT_EQ(BytesOf(a) + BytesOf(b), "abcdefghABCDEFGH");
}

TEST_P(Transfer, SizesThatDifferAreRefused) {
  const BufferSlice a = NewWith("abcdefgh"), b = NewWith("ABCDEFGH");
  for (const absl::Status& status :
       {Copy(device(), a, {b.buffer, 0, 4}), Copy(device(), {a.buffer, 0, 3}, b),
        WritePieces(device(), {"xx", "yy"}, a), WritePieces(device(), {}, {a.buffer, 0, 1}),
        WritePieces(device(), {"12345", "6789"}, a)}) {
    EXPECT_EQ(CodeOf(status), v1::BUFFER_SIZE_MISMATCH) << status;
  }
  EXPECT_EQ(BytesOf(a) + BytesOf(b), "abcdefghABCDEFGH");
}

TEST_P(Transfer, BuffersOfAnotherDeviceAreRefused) {
  if (const char* why = Lacks(Feature::kPair)) GTEST_SKIP() << why;
  const BufferSlice here = NewWith("abcd"), there = NewWith("ABCD", 1);
  for (const absl::Status& status :
       {Read(device(), there).status(), Read(device(1), here).status(), Write(device(), "wxyz", there),
        Fill(device(), there, "x"), WritePieces(device(), {"wxyz"}, there), Copy(device(), here, there),
        Copy(device(), there, here), Copy(device(1), here, there)}) {
    ASSERT_EQ(CodeOf(status), v1::BUFFER_DEVICE_MISMATCH) << status;
  }
  EXPECT_EQ(BytesOf(here) + BytesOf(there, 1), "abcdABCD");
}

TEST_P(Transfer, LoadAndStoreDoNotWaitForTheQueue) {
  const BufferSlice slice = NewWith(Pattern(3000));
  std::string got(1001, '?');
  Gate gate(device());
  EXPECT_EQ(device().Load(static_cast<char*>(slice.device_data()) + 7, got.size(), got.data()), absl::OkStatus());
  EXPECT_TRUE(got == Pattern(3000).substr(7, 1001));
  EXPECT_EQ(device().Store("xyz", 3, static_cast<char*>(slice.device_data()) + 2001), absl::OkStatus());
  EXPECT_EQ(device().Load(static_cast<char*>(slice.device_data()) + 2000, 5, got.data()), absl::OkStatus());
  std::string want = Pattern(3000).substr(2000, 5);
  want.replace(1, 3, "xyz");
  EXPECT_EQ(got.substr(0, 5), want);
  gate.Go();
  EXPECT_EQ(BytesOf({slice.buffer, 2000, 5}), want);
}

TEST_P(Transfer, FromOneDeviceToTheOtherByTheHost) {
  if (const char* why = Lacks(Feature::kPair)) GTEST_SKIP() << why;
  for (const uint64_t bytes : {uint64_t{1}, 16 * kKiB + 3, 5 * kMiB + 1}) {
    const std::string text = Pattern(bytes);
    const BufferSlice here = NewWith(text);
    const BufferSlice there = NewWith(BytesOf(here), 1);
    EXPECT_TRUE(BytesOf(there, 1) == text) << bytes;
  }
}

TEST_P(Transfer, DevicesWithoutPeersCopyFromNoDevice) {
  if (Lacks(Feature::kPair) != nullptr || Lacks(Feature::kPeers) == nullptr) {
    for (const std::string& peer : device().peers()) EXPECT_NE(peer, device().name());
    return;
  }
  EXPECT_EQ(device().peers(), std::vector<std::string>());
  EXPECT_FALSE(device().CopiesFrom(device(1)));
  EXPECT_FALSE(device(1).CopiesFrom(device()));
}

TEST_P(Transfer, PeersCopyFromEachOther) {
  if (const char* why = Lacks(Feature::kPeers)) GTEST_SKIP() << why;
  ASSERT_TRUE(device(1).CopiesFrom(device()));
  const std::vector<std::string> peers = device(1).peers();
  EXPECT_NE(std::find(peers.begin(), peers.end(), device().name()), peers.end());
  const std::string text = Pattern(5 * kMiB + 3);
  const BufferSlice from = NewWith(text), to = New(text.size(), MemoryUse::kClient, 1);
  // Two ranges: what is between them stays.
  const auto* source = static_cast<const char*>(from.device_data());
  auto* target = static_cast<char*>(to.device_data());
  const runtime::hal::Move moves[] = {
      {source + 1, target, 3}, {source, target, 0}, {source + 5, target + 7, text.size() - 7}};
  absl::Status status;
  InQueue([&] { status = device(1).CopyFrom(device(), moves); }, 1);
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_TRUE(BytesOf(to, 1) == text.substr(1, 3) + std::string(4, '\0') + text.substr(5, text.size() - 7));
  EXPECT_TRUE(BytesOf(from) == text);
}

INSTANTIATE_TEST_SUITE_P(Devices, Transfer, ::testing::ValuesIn(RowPointers()), RowName);

}  // namespace
}  // namespace kiln::testing
