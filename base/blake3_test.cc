#include "base/blake3.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

std::string Hex(const Digest& digest) { return absl::BytesToHexString(digest.view()); }

TEST(Blake3, KnownDigests) {
  EXPECT_EQ(Hex(Blake3Of("")), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
  EXPECT_EQ(Hex(Blake3Of("abc")), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
}

TEST(Blake3, KnownKeyedDigests) {
  const Digest key = Digest::FromBytes("whats the Elvish word for friend");
  EXPECT_EQ(Hex(KeyedBlake3Of(key, "")), "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26");
  EXPECT_NE(KeyedBlake3Of(key, "abc"), KeyedBlake3Of(Digest(), "abc"));
  EXPECT_NE(KeyedBlake3Of(Digest(), "abc"), Blake3Of("abc"));
}

TEST(Blake3, PiecesGiveTheDigestOfTheWhole) {
  const std::string text(5000, 'k');
  Blake3 hasher;
  for (size_t at = 0; at < text.size(); at += 700) hasher.Update(absl::string_view(text).substr(at, 700));
  EXPECT_EQ(hasher.Finish(), Blake3Of(text));
}

TEST(Blake3, FeedingMayGoOnAfterFinishAndResetForgets) {
  Blake3 hasher;
  hasher.Update("a");
  EXPECT_EQ(hasher.Finish(), Blake3Of("a"));
  hasher.Update("bc");
  EXPECT_EQ(hasher.Finish(), Blake3Of("abc"));
  hasher.Reset();
  EXPECT_EQ(hasher.Finish(), Blake3Of(""));
}

}  // namespace
}  // namespace kiln
