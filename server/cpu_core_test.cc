#include "server/cpu_core.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/config.h"

namespace kiln::server {
namespace {

class CoreOfTest : public ::testing::Test {
 protected:
  CoreOfTest() : log_("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)) { unsetenv("KILN_CPU_TARGET"); }
  ~CoreOfTest() override { unsetenv("KILN_CPU_TARGET"); }

  std::ostringstream text_;
  spdlog::logger log_;
  v1::ServerConfig config_ = DefaultConfig();
};

TEST_F(CoreOfTest, IsMeasuredOnceForAFolder) {
  config_.set_program_cache_dir(absl::StrCat(::testing::TempDir(), "/programs"));
  const auto measured = CoreOf(config_, log_);
  ASSERT_TRUE(measured.ok()) << measured.status();
  if (measured->ByteSizeLong() == 0) GTEST_SKIP() << "nothing measures this CPU";
  EXPECT_TRUE(absl::StrContains(text_.str(), "event=core source=measured file=core-")) << text_.str();
  text_.str("");
  const auto read = CoreOf(config_, log_);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->SerializeAsString(), measured->SerializeAsString());
  EXPECT_TRUE(absl::StrContains(text_.str(), "event=core source=read file=core-")) << text_.str();
  EXPECT_FALSE(absl::StrContains(text_.str(), "rejected"));
}

TEST_F(CoreOfTest, IsNotMeasuredWhereThatIsNotWantedOrTold) {
  config_.set_measure_core(false);
  EXPECT_EQ(CoreOf(config_, log_)->ByteSizeLong(), 0u);
  config_.set_measure_core(true);
  setenv("KILN_CPU_TARGET", "arch: 'znver2'", 1);
  EXPECT_EQ(CoreOf(config_, log_)->ByteSizeLong(), 0u);
  setenv("KILN_CPU_TARGET", "tuning { core { fmas_per_cycle: 1 } }", 1);
  EXPECT_EQ(CoreOf(config_, log_)->ByteSizeLong(), 0u);
  EXPECT_EQ(text_.str(), "");
  setenv("KILN_CPU_TARGET", "nonsense", 1);
  EXPECT_EQ(CoreOf(config_, log_).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kiln::server
