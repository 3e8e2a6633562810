#include "client/cpp/transport/credentials.h"

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace kiln::client {
namespace {

std::string Write(const char* name, const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  std::ofstream(path) << text;
  return path;
}

CredentialOptions With(std::string CredentialOptions::* field, const std::string& value) {
  CredentialOptions options;
  options.*field = value;
  return options;
}

void ExpectRefused(const CredentialOptions& options, const std::string& target, absl::string_view part) {
  const absl::Status status = CheckCredentials(options, target);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
}

TEST(Credentials, ATokenDoesNotTravelInTheOpen) {
  CredentialOptions token = With(&CredentialOptions::token, "secret");
  for (const char* target : {"localhost:1", "127.0.0.1:1", "[::1]:1", "unix:/tmp/x", "dns:///localhost:1"}) {
    EXPECT_TRUE(CheckCredentials(token, target).ok()) << target;
    EXPECT_TRUE(StaysHere(target)) << target;
  }
  for (const char* target : {"host:1", "10.0.0.1:1", "localhost.example:1", "[::2]:1", "dns:///host:1",
                             "127.example.com:1", "ipv4:127.0.0.1:1,10.0.0.1:1"}) {
    ExpectRefused(token, target, "where others can read it");
    EXPECT_TRUE(CheckCredentials({}, target).ok()) << target;
    EXPECT_FALSE(StaysHere(target)) << target;
  }
  token.tls_ca = "system";
  EXPECT_TRUE(CheckCredentials(token, "host:1").ok());
  token.tls_ca = "";
  token.insecure = true;
  EXPECT_TRUE(CheckCredentials(token, "host:1").ok());
}

TEST(Credentials, AClientDoesNotGoWhereverAServerSays) {
  CredentialOptions token = With(&CredentialOptions::token, "secret"), safe = token;
  token.insecure = true;  // holds for where the user has sent it
  safe.tls_ca = "system";
  for (const char* address : {"gpu1.example:7437", "10.0.0.1:1", "[fe80::1]:1"}) {
    EXPECT_TRUE(MayFollow({}, address)) << address;
    EXPECT_TRUE(MayFollow(safe, address)) << address;
    EXPECT_FALSE(MayFollow(token, address)) << address;
  }
  EXPECT_TRUE(MayFollow(token, "127.0.0.1:7437"));
  for (const char* address : {"", "host", ":1", "host:", "host:x", "host:99999", "unix:/tmp/x", "xds:host:1",
                              "dns:///host:1", "ipv4:127.0.0.1:1,10.0.0.1:1", "a b:1", "host/path:1", "[host]:1x"})
    EXPECT_FALSE(MayFollow({}, address)) << address;
}

TEST(Credentials, WhatDoesNotGoTogetherIsRefused) {
  ExpectRefused(With(&CredentialOptions::tls_key, "/dev/null"), "x:1", "go together");
  ExpectRefused(With(&CredentialOptions::tls_ca, "/nonexistent"), "x:1", "/nonexistent");
  ExpectRefused(With(&CredentialOptions::token_file, Write("empty", "")), "localhost:1", "empty");
  CredentialOptions pair = With(&CredentialOptions::tls_key, Write("key", "k"));
  pair.tls_certificate = Write("certificate", "c");
  ExpectRefused(pair, "x:1", "say who signs the server's");
  pair.tls_ca = "system";
  EXPECT_TRUE(CheckCredentials(pair, "x:1").ok());
}

TEST(BearerSource, IsTheTokenOrWhatTheFileHas) {
  EXPECT_EQ(BearerSource({}).Value(), "");
  EXPECT_EQ(BearerSource(With(&CredentialOptions::token, "a")).Value(), "Bearer a");
  const std::string path = Write("token", " b\n");
  EXPECT_EQ(BearerSource(With(&CredentialOptions::token_file, path)).Value(), "Bearer b");
}

TEST(BearerSource, NewestIsWhatTheFileHasNow) {
  EXPECT_EQ(BearerSource(With(&CredentialOptions::token, "a")).Newest(), "Bearer a");
  BearerSource source(With(&CredentialOptions::token_file, Write("changes", "a")));
  EXPECT_EQ(source.Value(), "Bearer a");
  Write("changes", "b");
  EXPECT_EQ(source.Newest(), "Bearer b");
  EXPECT_EQ(source.Value(), "Bearer b");
  Write("changes", "");  // in the middle of a change
  EXPECT_EQ(source.Newest(), "Bearer b");
}

}  // namespace
}  // namespace kiln::client
