#include "server/warm_up.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln::server {
namespace {

TEST(ParseOptions, ReadsWhatFingerprintWrites) {
  compiler::Options options;
  EXPECT_EQ(ParseOptions(options.Fingerprint())->Fingerprint(), options.Fingerprint());
  options.contraction = false;
  options.deterministic = options.fast_math = options.strict = options.guard_arrays = true;
  options.disabled_passes = {"simplify ranges", "optimize"};
  options.constants = {1, 70};
  options.beam = 4;
  options.beam_budget_ms = 500;
  const auto again = ParseOptions(options.Fingerprint());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->Fingerprint(), options.Fingerprint());
  EXPECT_EQ(again->disabled_passes, options.disabled_passes);
  EXPECT_EQ(again->constants, options.constants);
  EXPECT_EQ(again->beam, 4u);
  EXPECT_EQ(again->beam_budget_ms, 500u);
  EXPECT_FALSE(again->contraction);
}

TEST(ParseOptions, RefusesWhatThisCompilerDoesNotKnow) {
  const std::string plain = compiler::Options().Fingerprint();
  for (const std::string& text : {std::string(), std::string("contraction=1"), "faster=1 " + plain,
                                  std::string("contraction=2") + plain.substr(13),
                                  plain.substr(0, plain.find("constants=")) + "constants=x disabled="}) {
    const auto options = ParseOptions(text);
    ASSERT_FALSE(options.ok()) << text;
    EXPECT_EQ(DetailOf(options.status())->code(), v1::BAD_ARGUMENT);
  }
}

}  // namespace
}  // namespace kiln::server
