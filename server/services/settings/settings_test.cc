#include "server/services/settings/settings.h"

#include <spdlog/common.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.pb.h"

namespace kiln::server {
namespace {

using spdlog::level::debug;
using spdlog::level::err;
using spdlog::level::info;
using spdlog::level::trace;
using spdlog::level::warn;

inference::LogSettingsRequest Flag(const char* name, bool value, inference::LogSettingsRequest request = {}) {
  (*request.mutable_settings())[name].set_bool_param(value);
  return request;
}
inference::LogSettingsRequest Verbose(uint32_t value, inference::LogSettingsRequest request = {}) {
  (*request.mutable_settings())["log_verbose_level"].set_uint32_param(value);
  return request;
}

TEST(LogSettings, WhatIsNamedTakesTheOthersAlong) {
  EXPECT_EQ(*LevelOf({}, warn), warn);
  EXPECT_EQ(*LevelOf(Flag("log_info", false), info), warn);
  EXPECT_EQ(*LevelOf(Flag("log_info", false), trace), warn);
  EXPECT_EQ(*LevelOf(Flag("log_info", false), err), err);
  EXPECT_EQ(*LevelOf(Flag("log_info", true), err), info);
  EXPECT_EQ(*LevelOf(Flag("log_info", true), debug), debug);
  EXPECT_EQ(*LevelOf(Flag("log_warning", false), debug), err);
  EXPECT_EQ(*LevelOf(Flag("log_warning", true), err), warn);
  EXPECT_EQ(*LevelOf(Flag("log_error", true), err), err);
  EXPECT_EQ(*LevelOf(Verbose(0), trace), info);
  EXPECT_EQ(*LevelOf(Verbose(0), err), err);
  EXPECT_EQ(*LevelOf(Verbose(1), trace), debug);
  EXPECT_EQ(*LevelOf(Verbose(1), err), debug);
  EXPECT_EQ(*LevelOf(Verbose(7), info), trace);
  EXPECT_EQ(*LevelOf(Verbose(0, Flag("log_info", true)), err), info);
}

void ExpectRefused(const absl::Status& status, v1::ErrorCode code, const std::string& field) {
  const auto detail = DetailOf(status);
  ASSERT_TRUE(detail.has_value()) << status;
  EXPECT_EQ(detail->code(), code) << status;
  EXPECT_EQ(detail->field(), field) << status;
}

TEST(LogSettings, WhatCannotBeIsRefusedByName) {
  ExpectRefused(LevelOf(Flag("log_error", false), info).status(), v1::BAD_ARGUMENT, "log_error");
  ExpectRefused(LevelOf(Flag("log_color", true), info).status(), v1::NOT_IMPLEMENTED, "log_color");
  ExpectRefused(LevelOf(Flag("a\nb", true), info).status(), v1::NOT_IMPLEMENTED, "a\\nb");
  ExpectRefused(LevelOf(Flag("log_verbose_level", true), info).status(), v1::BAD_ARGUMENT, "log_verbose_level");
  ExpectRefused(LevelOf(Verbose(1, Flag("log_info", false)), info).status(), v1::BAD_ARGUMENT, "log_verbose_level");
  ExpectRefused(LevelOf(Flag("log_info", true, Flag("log_warning", false)), info).status(), v1::BAD_ARGUMENT,
                "log_verbose_level");
  inference::LogSettingsRequest file;
  (*file.mutable_settings())["log_file"].set_string_param("/etc/passwd");
  ExpectRefused(LevelOf(file, info).status(), v1::NOT_IMPLEMENTED, "log_file");
  inference::LogSettingsRequest cleared;
  (*cleared.mutable_settings())["log_info"];
  ExpectRefused(LevelOf(cleared, info).status(), v1::BAD_ARGUMENT, "log_info");
}

TEST(LogSettings, EachLevelIsSaidAsItCanBeSet) {
  for (const auto level : {trace, debug, info, warn, err}) {
    inference::LogSettingsResponse said;
    FillLogSettings(level, "json", said);
    EXPECT_EQ(said.settings().at("log_format").string_param(), "json");
    EXPECT_TRUE(said.settings().at("log_error").bool_param());
    inference::LogSettingsRequest request;
    for (const char* name : {"log_warning", "log_info"})
      request = Flag(name, said.settings().at(name).bool_param(), request);
    request = Verbose(said.settings().at("log_verbose_level").uint32_param(), request);
    for (const auto before : {trace, info, err}) EXPECT_EQ(*LevelOf(request, before), level) << level << " " << before;
  }
}

inference::TraceSettingRequest Trace(const std::string& name, const std::vector<std::string>& values) {
  inference::TraceSettingRequest request;
  auto& setting = (*request.mutable_settings())[name];
  for (const std::string& value : values) setting.add_value(value);
  return request;
}

TEST(TraceSettings, RateAndLevel) {
  const Traces::Sampling first = {true, 0.01}, off = {false, 0.5};
  const auto rate = SamplingOf(Trace("trace_rate", {"4"}), first, first);
  EXPECT_TRUE(rate->on);
  EXPECT_EQ(rate->ratio, 0.25);
  EXPECT_FALSE(SamplingOf(Trace("trace_level", {"OFF"}), first, first)->on);
  EXPECT_TRUE(SamplingOf(Trace("trace_level", {"TIMESTAMPS"}), off, first)->on);
  // Without a value: as it was at first.
  EXPECT_TRUE(SamplingOf(Trace("trace_level", {}), off, first)->on);
  EXPECT_EQ(SamplingOf(Trace("trace_rate", {}), off, first)->ratio, 0.01);
  EXPECT_EQ(SamplingOf({}, off, first)->ratio, 0.5);
}

TEST(TraceSettings, WhatCannotBeIsRefusedByName) {
  const Traces::Sampling now = {true, 1};
  for (const char* value : {"0", "-1", "x", "", "1.5", "99999999999999999999999"})
    ExpectRefused(SamplingOf(Trace("trace_rate", {value}), now, now).status(), v1::BAD_ARGUMENT, "trace_rate");
  ExpectRefused(SamplingOf(Trace("trace_rate", {"1", "2"}), now, now).status(), v1::BAD_ARGUMENT, "trace_rate");
  ExpectRefused(SamplingOf(Trace("trace_level", {"TENSORS"}), now, now).status(), v1::BAD_ARGUMENT, "trace_level");
  ExpectRefused(SamplingOf(Trace("trace_file", {"x"}), now, now).status(), v1::NOT_IMPLEMENTED, "trace_file");
  ExpectRefused(SamplingOf(Trace("trace_level", {"TIMESTAMPS"}), {false, 0}, now).status(), v1::BAD_ARGUMENT,
                "trace_level");
}

TEST(TraceSettings, AreSaidByTritonsNames) {
  inference::TraceSettingResponse said;
  FillTraceSettings({true, 0.01}, /*exports=*/true, said);
  EXPECT_EQ(said.settings().at("trace_level").value(0), "TIMESTAMPS");
  EXPECT_EQ(said.settings().at("trace_rate").value(0), "100");
  FillTraceSettings({true, 0.3}, /*exports=*/false, said = inference::TraceSettingResponse());
  EXPECT_EQ(said.settings().at("trace_level").value(0), "OFF");
  EXPECT_EQ(said.settings().at("trace_rate").value(0), "3");
  FillTraceSettings({false, 0}, /*exports=*/true, said = inference::TraceSettingResponse());
  EXPECT_EQ(said.settings().at("trace_rate").value(0), "0");
}

}  // namespace
}  // namespace kiln::server
