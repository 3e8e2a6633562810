#include "server/otlp/settings.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"

namespace kiln::server {
namespace {

using Variables = std::map<std::string, std::string>;

absl::StatusOr<OtlpSettings> Settings(const std::string& flag, const Variables& variables) {
  v1::ServerConfig config;
  config.set_otlp_endpoint(flag);
  config.set_trace_sample_ratio(0.25);
  return OtlpSettingsOf(config, "kiln-1", [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string UrlOf(const std::string& flag, const Variables& variables) {
  const auto settings = Settings(flag, variables);
  EXPECT_TRUE(settings.ok()) << settings.status();
  return settings->url;
}

std::string Attribute(const OtlpSettings& settings, const std::string& key) {
  std::string value;
  for (const auto& [name, text] : settings.resource) {
    if (name == key) value += text;
  }
  return value;
}

TEST(OtlpSettings, TheFlagIsBeforeTheEnvironment) {
  const Variables general = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"}};
  const Variables both = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/"},
                          {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://b/x"}};
  EXPECT_EQ(UrlOf("", {}), "");
  EXPECT_EQ(UrlOf("http://c:1/v1/traces", both), "http://c:1/v1/traces");
  EXPECT_EQ(UrlOf("none", both), "");
  EXPECT_EQ(UrlOf("", general), "http://a:4318/v1/traces");
  EXPECT_EQ(UrlOf("", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/"}}), "http://a:4318/v1/traces");
  EXPECT_EQ(UrlOf("", both), "https://b/x");
}

TEST(OtlpSettings, TheResourceSaysWhoSends) {
  const auto plain = Settings("http://c:1", {});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(Attribute(*plain, "service.name"), "kilnd");
  EXPECT_EQ(Attribute(*plain, "service.version"), "kiln-1");
  EXPECT_EQ(Attribute(*plain, "service.instance.id").size(), 36);
  EXPECT_NE(Attribute(*plain, "service.instance.id"), Attribute(*Settings("http://c:1", {}), "service.instance.id"));
  EXPECT_EQ(plain->sample_ratio, 0.25);
  const auto given =
      Settings("http://c:1",
               {{"OTEL_RESOURCE_ATTRIBUTES", "service.name=x, deployment.environment=a%2Cb ,service.instance.id=7"},
                {"OTEL_SERVICE_NAME", "tuner"},
                {"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc=,x-scope=1"},
                {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"}});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(Attribute(*given, "service.name"), "tuner");
  EXPECT_EQ(Attribute(*given, "service.instance.id"), "7");
  EXPECT_EQ(Attribute(*given, "deployment.environment"), "a,b");
  EXPECT_EQ(given->headers, std::vector<std::string>({"authorization: Basic abc=", "x-scope: 1"}));
  EXPECT_EQ(given->ca_file, "/ca.pem");
}

TEST(OtlpSettings, WhatIsMalformedIsNamed) {
  for (const auto& [name, value] : Variables{{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"},
                                             {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://a"}}) {
    const auto settings = Settings("", {{name, value}});
    ASSERT_FALSE(settings.ok()) << name;
    EXPECT_EQ(DetailOf(settings.status())->field(), name);
  }
  for (const char* bad : {"novalue", "=x", "a=%0", "a=%zz", "a=b%0d%0aEvil: 1", "a=1,b"}) {
    const auto settings = Settings("http://c:1", {{"OTEL_EXPORTER_OTLP_HEADERS", bad}});
    ASSERT_FALSE(settings.ok()) << bad;
    EXPECT_EQ(DetailOf(settings.status())->field(), "OTEL_EXPORTER_OTLP_HEADERS") << bad;
  }
  EXPECT_TRUE(Settings("", {{"OTEL_EXPORTER_OTLP_HEADERS", "novalue"}}).ok()) << "nothing is exported";
}

}  // namespace
}  // namespace kiln::server
