#include "server/identity/refused_tokens.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);
const absl::Status kWhy = MakeError(v1::NOT_AUTHENTICATED, "its signature is wrong");

class RefusedTokensTest : public testing::Test {
 protected:
  // A token that nobody has seen comes, and is refused if it is looked at; whether it was.
  bool Forged(const std::string& peer, absl::Time now) {
    const Sha256 token = Sha256Of(absl::StrCat("token ", ++forged_));
    if (!refused_.Check(token, peer, now).ok()) return false;
    refused_.Note(token, peer, kWhy, now);
    return true;
  }
  // Of so many.
  int Looked(int tokens, const std::string& peer, absl::Time now) {
    int looked = 0;
    for (int i = 0; i < tokens; ++i) looked += Forged(peer, now);
    return looked;
  }

  RefusedTokens refused_;
  int forged_ = 0;
};

TEST_F(RefusedTokensTest, OfFiftyThousandOfOneAddressFewAreLookedAt) {
  // On as many connections as it likes.
  int looked = 0;
  for (int i = 0; i < 50'000; ++i)
    looked += Forged(absl::StrCat("ipv4:10.0.0.7:", i), kStart + i * absl::Microseconds(20));
  // One second's, and what it gained in this second.
  EXPECT_GE(looked, RefusedTokens::kOfAddress);
  EXPECT_LE(looked, 2 * RefusedTokens::kOfAddress);
  // Another's are looked at.
  EXPECT_TRUE(refused_.Check(Sha256Of("new"), "ipv4:10.0.0.8:1", kStart + absl::Seconds(1)).ok());
  const auto detail = DetailOf(refused_.Check(Sha256Of("new"), "ipv4:10.0.0.7:1", kStart + absl::Seconds(1)));
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->code(), v1::NOT_AUTHENTICATED);
  EXPECT_GT(detail->retry_after_ms(), 0u);
  EXPECT_TRUE(refused_.Check(Sha256Of("new"), "ipv4:10.0.0.7:1", kStart + absl::Seconds(2)).ok());
}

TEST_F(RefusedTokensTest, ManyAddressesShareOneBudget) {
  int looked = 0;
  for (int i = 0; i < 10'000; ++i) looked += Forged(absl::StrCat("ipv4:10.0.0.", i % 10, ":443"), kStart);
  EXPECT_EQ(looked, RefusedTokens::kOfAll);
  EXPECT_EQ(Looked(1000, "ipv4:10.0.0.7:1", kStart + absl::Milliseconds(100)), RefusedTokens::kOfAll / 10);
}

TEST_F(RefusedTokensTest, AnAddressOfWhichNoneWasRefusedIsNotLockedOut) {
  while (Forged(absl::StrCat("ipv4:10.0.0.", forged_ % 10, ":443"), kStart)) {
  }
  EXPECT_EQ(Looked(10, "ipv4:10.0.1.1:1", kStart), 1);
  EXPECT_TRUE(refused_.Check(Sha256Of("good"), "ipv4:10.0.1.2:1", kStart).ok());
  EXPECT_FALSE(refused_.Check(Sha256Of("good"), "ipv4:10.0.0.7:1", kStart).ok());
}

// Nor does anybody get around the budgets by having very many.
TEST_F(RefusedTokensTest, SoManyAddressesShareTwoBudgets) {
  int looked = 0;
  for (int i = 0; i < 20'000; ++i)
    looked += Forged(absl::StrCat("ipv4:10.", i / 65536, ".", i / 256 % 256, ".", i % 256, ":443"), kStart);
  EXPECT_EQ(looked, RefusedTokens::kOfAll + RefusedTokens::kOfQuiet);
}

// Whoever has one has all of its 2^64 addresses.
TEST_F(RefusedTokensTest, ANetworkOfIpv6IsOneAddress) {
  int looked = 0;
  for (int i = 0; i < 10'000; ++i) looked += Forged(absl::StrCat("ipv6:%5B2001:db8::", i, "%5D:443"), kStart);
  EXPECT_EQ(looked, RefusedTokens::kOfAddress);
  EXPECT_TRUE(Forged("ipv6:%5B2001:db8:0:1::7%5D:443", kStart));
}

TEST_F(RefusedTokensTest, BehindASocketThereAreNoAddresses) {
  EXPECT_EQ(Looked(10'000, "unix:", kStart), RefusedTokens::kOfAll);
}

TEST_F(RefusedTokensTest, OneThatWasRefusedIsNotLookedAtAgain) {
  const Sha256 token = Sha256Of("forged");
  refused_.Note(token, "ipv4:10.0.0.7:1", kWhy, kStart);
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(refused_.Check(token, "ipv4:10.0.0.7:1", kStart), kWhy);
  // It cost one.
  EXPECT_EQ(Looked(10'000, "ipv4:10.0.0.7:1", kStart), RefusedTokens::kOfAddress - 1);
  EXPECT_TRUE(refused_.Check(token, "ipv4:10.0.0.7:1", kStart + RefusedTokens::kRemembered).ok());
  refused_.Note(token, "ipv4:10.0.0.8:1", kWhy, kStart);
  refused_.Forget();
  EXPECT_TRUE(refused_.Check(token, "ipv4:10.0.0.8:1", kStart).ok());
}

}  // namespace
}  // namespace kiln::server
