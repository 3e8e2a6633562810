#include "server/identity/tenants.h"

#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "server/identity/identity.h"

namespace kiln::server {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

// Of an Ed25519 key of RFC 8037, A.2, and the token that it signs: with claims of ours, by
// `openssl pkeyutl -sign -rawin`.
constexpr char kJwks[] =
    R"({"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})";

absl::StatusOr<std::string> Keys(const KeySource& source) {
  if (source.file == "keys.json" || source.url == "https://keys/") return std::string(kJwks);
  return absl::NotFoundError(absl::StrCat("cannot read ", source.file, source.url));
}

std::string Hex(absl::string_view secret) {
  const Sha256 digest = Sha256Of(secret);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

absl::StatusOr<Tenants> Parse(const std::string& text) { return Tenants::Parse(text, Keys); }

std::string NameOf(const Tenants& tenants, const std::string& authorization,
                   const std::vector<absl::string_view>& names = {}) {
  const auto found = tenants.Identify({authorization, names}, kNow);
  if (found.ok()) return found->tenant->name;
  EXPECT_EQ(DetailOf(found.status())->code(), v1::NOT_AUTHENTICATED);
  return absl::StrCat("-- ", found.status().message());
}

TEST(Tenants, AreKnownByTheirTokens) {
  const auto tenants = Parse(absl::StrCat(
      R"(tenant { name: "a" token { sha256: ")", Hex("one"), R"(" } token { sha256: ")", Hex("two"),
      R"(" expires: "2027-01-15T08:00:01Z" } token { sha256: ")", Hex("old"), R"(" expires: "2027-01-15T08:00:00Z" } }
      tenant { name: "b.2_x-y" token { sha256: ")",
      absl::AsciiStrToUpper(Hex("three")), R"(" } right: EXECUTE_RIGHT })"));
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  EXPECT_EQ(tenants->size(), 2u);
  EXPECT_EQ(NameOf(*tenants, "Bearer one"), "a");
  EXPECT_EQ(NameOf(*tenants, "bearer two"), "a");
  EXPECT_EQ(NameOf(*tenants, "Bearer three"), "b.2_x-y");
  EXPECT_NE(NameOf(*tenants, "Bearer old").find("expired at 2027-01-15T08:00:00"), std::string::npos);
  EXPECT_EQ(NameOf(*tenants, "Bearer four"), "-- the token is none of this server's");
  EXPECT_EQ(NameOf(*tenants, "one"), "-- authorization is \"Bearer TOKEN\"");
  EXPECT_EQ(NameOf(*tenants, "Basic one"), "-- authorization is \"Bearer TOKEN\"");
  EXPECT_EQ(NameOf(*tenants, "Bearer "), "-- authorization is \"Bearer TOKEN\"");
  EXPECT_NE(NameOf(*tenants, "").find("wants to know who asks"), std::string::npos);

  const TenantPtr a = tenants->Identify({"Bearer one", {}}, kNow)->tenant;
  EXPECT_TRUE(a->Has(Right::kExecute) && a->Has(Right::kDebug) && !a->Has(Right::kAdmin));
  const TenantPtr b = tenants->Identify({"Bearer three", {}}, kNow)->tenant;
  EXPECT_TRUE(b->Has(Right::kExecute) && !b->Has(Right::kDebug) && !b->Has(Right::kAdmin));
}

TEST(Tenants, AreKnownByTheNamesInTheirCertificates) {
  const auto tenants = Parse(
      R"(tenant { name: "all" certificate: "spiffe://c/*" }
         tenant { name: "team" certificate: "spiffe://c/team/*" certificate: "host.example" }
         tenant { name: "one" certificate: "spiffe://c/team/one" })");
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  EXPECT_EQ(NameOf(*tenants, "", {"spiffe://c/team/one"}), "one");
  EXPECT_EQ(NameOf(*tenants, "", {"spiffe://c/team/one2"}), "team");
  EXPECT_EQ(NameOf(*tenants, "", {"spiffe://c/x"}), "all");
  EXPECT_EQ(NameOf(*tenants, "", {"unknown", "host.example"}), "team");
  EXPECT_EQ(NameOf(*tenants, "", {"host.example.org"}),
            "-- no tenant has the certificate's name, \"host.example.org\"");
  // A token that is wrong is not made good by a certificate.
  EXPECT_EQ(NameOf(*tenants, "Bearer x", {"host.example"}), "-- the token is none of this server's");
}

TEST(Tenants, MayAskForSomeModelsOrForAll) {
  const auto tenants = Parse(
      R"(tenant { name: "a" certificate: "a" model: "bert" model: "open-*" }
         tenant { name: "b" certificate: "b" })");
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  const Tenant &a = *tenants->all()[0], &b = *tenants->all()[1];
  for (const char* model : {"bert", "open-", "open-1"}) EXPECT_TRUE(a.MayAsk(model)) << model;
  for (const char* model : {"bert2", "ber", "open", ""}) EXPECT_FALSE(a.MayAsk(model)) << model;
  EXPECT_TRUE(b.MayAsk("anything"));
}

TEST(Tenants, HaveDevicesPartsOfThemAndOthersToShareWith) {
  const auto tenants = Parse(
      R"(cache_sharing: SHARE_IN_GROUP
         tenant { name: "a" certificate: "a" device: "CPU:*" device: "CUDA:0" guaranteed_device_bytes: 7 sharing_group: "g" }
         tenant { name: "b" certificate: "b" })");
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  const Tenant &a = *tenants->all()[0], &b = *tenants->all()[1];
  EXPECT_EQ(a.devices, (std::vector<std::string>{"CPU:*", "CUDA:0"}));
  EXPECT_EQ(a.guaranteed_device_bytes, 7u);
  EXPECT_EQ(a.cache_sharing, CacheSharing::kGroup);
  EXPECT_EQ(a.sharing_group, "g");
  EXPECT_TRUE(b.devices.empty() && b.guaranteed_device_bytes == 0 && b.sharing_group.empty());
  EXPECT_EQ(Parse(R"(tenant { name: "a" certificate: "a" })")->all()[0]->cache_sharing, CacheSharing::kNone);
  EXPECT_EQ(Parse(R"(cache_sharing: SHARE_HIDDEN tenant { name: "a" certificate: "a" })")->all()[0]->cache_sharing,
            CacheSharing::kHidden);
}

TEST(Tenants, AreKnownByTheirUsersOfThisMachine) {
  const auto tenants = Parse(absl::StrCat(
      R"(tenant { name: "a" unix_user: "root" unix_user: "4242" }
         tenant { name: "b" unix_user: "4243" token { sha256: ")",
      Hex("one"), "\" } }"));
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  const auto name_of = [&](const std::string& authorization, uint32_t user) {
    const auto found = tenants->Identify({authorization, {}, user}, kNow);
    return found.ok() ? found->tenant->name : std::string(found.status().message());
  };
  EXPECT_EQ(name_of("", 0), "a");
  EXPECT_EQ(name_of("", 4242), "a");
  EXPECT_EQ(name_of("", 4243), "b");
  EXPECT_EQ(name_of("", 4244), "no tenant has the user 4244 of this machine");
  EXPECT_TRUE(tenants->HasUnixUser(4243) && !tenants->HasUnixUser(4244));
  // A token goes first.
  EXPECT_EQ(name_of("Bearer one", 4242), "b");
  EXPECT_EQ(name_of("Bearer two", 4242), "the token is none of this server's");
}

TEST(Tenants, OneFaultRefusesTheFileAndIsNamed) {
  const std::string token = absl::StrCat("token { sha256: \"", Hex("s"), "\" }");
  const std::string issuer = R"(issuer { name: "i" audience: "kiln" jwks_file: "keys.json" } )";
  const struct {
    std::string text;
    const char* part;
  } rows[] = {
      {"", "there is none"},
      {"tenant { name: }", "line 1, column 16"},
      {"\ntenant { nmae: \"a\" }", "line 2"},
      {"tenant { name: \"\" " + token + "}", "a name has"},
      {"tenant { name: \"a b\" " + token + "}", "tenant \"a b\""},
      {"tenant { name: \"\\x00\\xff\" " + token + "}", "\\000\\377"},
      {"tenant { name: \"-a\" " + token + "}", "a name has"},
      {"tenant { name: \"" + std::string(64, 'a') + "\" " + token + "}", "63 letters"},
      {"tenant { name: \"" + std::string(1 << 20, 'a') + "\" " + token + "}", "aaa...\": "},
      {"tenant { name: \"a\" }", "no token, certificate, jwt or unix_user"},
      {"tenant { name: \"a\" unix_user: \"no such user\" }", "neither a user of this machine nor"},
      {"tenant { name: \"a\" unix_user: \"\" }", "neither a user of this machine nor"},
      {"tenant { name: \"a\" unix_user: \"65534\" }", "no one user's"},
      {"tenant { name: \"a\" unix_user: \"1\" } tenant { name: \"b\" unix_user: \"1\" }", "is \"a\"'s already"},
      {"tenant { name: \"a\" token { sha256: \"12\" } }", "64 hexadecimal digits"},
      {"tenant { name: \"a\" token { sha256: \"" + std::string(64, 'g') + "\" } }", "64 hexadecimal digits"},
      {"tenant { name: \"a\" token { sha256: \"" + Hex("s") + "\" expires: \"soon\" } }", "is no time such as"},
      {"tenant { name: \"a\" " + token + "} tenant { name: \"a\" certificate: \"x\" }", "twice"},
      {"tenant { name: \"a\" " + token + "} tenant { name: \"b\" " + token + "}", "tenant \"b\": tenants: a token"},
      {"tenant { name: \"a\" certificate: \"x\" } tenant { name: \"b\" certificate: \"x\" }", "is \"a\"'s already"},
      {"tenant { name: \"a\" certificate: \"\" }", "a certificate is empty"},
      {"tenant { name: \"a\" certificate: \"x\" device: \"\" }", "a device is empty"},
      {"tenant { name: \"a\" certificate: \"x\" model: \"\" }", "a model is empty"},
      {"tenant { name: \"a\" certificate: \"x\" isolation: PROCESS guaranteed_device_bytes: 1 }",
       "of the server's devices"},
      {"tenant { name: \"a\" certificate: \"x\" sharing_group: \"g\" }", "goes with cache_sharing: SHARE_IN_GROUP"},
      {"cache_sharing: SHARE_WITH_ALL tenant { name: \"a\" certificate: \"x\" sharing_group: \"g\" }", "goes with"},
      {"cache_sharing: SHARE_IN_GROUP tenant { name: \"a\" certificate: \"x\" sharing_group: \"all:\" }", "is a name"},
      {"tenant { name: \"a\" jwt { issuer: \"i\" subject: \"s\" } }", "which the file has not"},
      {issuer + "tenant { name: \"a\" jwt { issuer: \"i\" } }", "jwt subject is empty"},
      {issuer + issuer + "tenant { name: \"a\" " + token + "}", "issuer \"i\": it is there twice"},
      {R"(issuer { name: "i" jwks_file: "keys.json" })", "no audience"},
      {R"(issuer { audience: "i" jwks_file: "keys.json" })", "no name"},
      {R"(issuer { name: "i" audience: "k" jwks_file: "none" })", "cannot read none"},
      {R"(issuer { name: "i" audience: "k" jwks_file: "keys.json" leeway_seconds: 601 })", "at most 600"},
      {R"(issuer { name: "i" audience: "k" })", "either a jwks_file or a jwks_url"},
      {R"(issuer { name: "i" audience: "k" jwks_file: "keys.json" jwks_url: "https://keys/" })",
       "either a jwks_file or"},
      {R"(issuer { name: "i" audience: "k" jwks_url: "https://none/" })", "cannot read https://none/"},
      {R"(issuer { name: "i" audience: "k" jwks_url: "https://keys/" jwks_refresh_seconds: 9 })", "from 10 to 86400"},
      {R"(issuer { name: "i" audience: "k" jwks_file: "keys.json" jwks_ca_file: "x" })", "go with a jwks_url"},
      {"tenant { name: \"a\" " + token + " right: RIGHT_UNSPECIFIED }", "a right is"},
      {"tenant { name: \"a\" " + token + " quota { cheese: 1 } }", "cheese"},
      {"tenant { name: \"a\" " + token + " quota { handles: -1 } }", "line 1"},
      {"tenant { name: \"a\" " + token + " weight: 10001 }", "at most 10000"},
      {"tenant { name: \"a\" " + token + " class: 7 }", "class"},
  };
  for (const auto& row : rows) {
    const auto tenants = Parse(row.text);
    ASSERT_FALSE(tenants.ok()) << row.text;
    EXPECT_EQ(DetailOf(tenants.status())->code(), v1::BAD_ARGUMENT) << tenants.status();
    EXPECT_EQ(DetailOf(tenants.status())->field(), "tenants") << tenants.status();
    EXPECT_NE(tenants.status().message().find(row.part), absl::string_view::npos) << tenants.status();
    EXPECT_LT(tenants.status().message().size(), 1024u) << "one line of the log";
  }
}

TEST(Tenants, KeysByUrlAreAskedForAgain) {
  const std::string rest = absl::StrCat("tenant { name: \"a\" token { sha256: \"", Hex("s"), "\" } }");
  EXPECT_EQ(Parse(absl::StrCat(R"(issuer { name: "i" audience: "k" jwks_file: "keys.json" })", rest))->refresh(),
            absl::InfiniteDuration());
  const std::string first = R"(issuer { name: "i" audience: "k" jwks_url: "https://keys/" jwks_token_file: "t" })";
  const auto tenants = Parse(absl::StrCat(
      first, R"(issuer { name: "j" audience: "k" jwks_url: "https://keys/" jwks_refresh_seconds: 60 })", rest));
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  EXPECT_EQ(tenants->refresh(), absl::Seconds(60));
  EXPECT_EQ(tenants->files(), std::vector<std::string>{"t"});
  EXPECT_EQ(Parse(absl::StrCat(first, rest))->refresh(), absl::Seconds(300));
}

TEST(Tenants, RunApartIfTheFileSaysSo) {
  const auto tenants = Parse(
      R"(tenant { name: "a" certificate: "a" } tenant { name: "b" certificate: "b" isolation: SHARED }
         tenant { name: "c" certificate: "c" isolation: PROCESS })");
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  std::vector<bool> apart;
  for (const TenantPtr& tenant : tenants->all()) apart.push_back(tenant->apart);
  EXPECT_EQ(apart, (std::vector<bool>{false, false, true}));
  EXPECT_FALSE(Parse(R"(tenant { name: "a" certificate: "a" isolation: 3 })").ok());
}

TEST(KeySource, AUrlIsEncryptedOrOfThisMachine) {
  for (const char* url : {"https://a/b", "http://localhost:1/", "http://127.0.0.1:1/", "http://[::1]:1/"})
    EXPECT_TRUE(CheckKeyUrl(url).ok()) << url;
  for (const char* url : {"http://a/", "file:///etc/passwd", "localhost:1", "", "http://localhost.example:1/",
                          "http://127.0.0.1.example:1/"}) {
    const absl::Status status = CheckKeyUrl(url);
    EXPECT_EQ(DetailOf(status)->code(), v1::BAD_ARGUMENT) << url;
  }
}

class IdentityTest : public testing::Test {
 protected:
  void Write(const std::string& text) {
    // As a whole, as an operator should.
    std::ofstream(path_ + ".new") << text;
    std::rename((path_ + ".new").c_str(), path_.c_str());
  }
  static std::string With(const std::string& name, const std::string& secret) {
    return absl::StrCat("tenant { name: \"", name, "\" token { sha256: \"", Hex(secret), "\" } }");
  }
  std::string NameOf(const std::string& authorization) {
    const auto tenant = identity_->Identify({authorization, {}}, kNow);
    return tenant.ok() ? tenant->tenant->name : "";
  }
  void Open(absl::Duration period) {
    auto identity = Identity::Open(path_, log_, period);
    ASSERT_TRUE(identity.ok()) << identity.status();
    identity_ = *std::move(identity);
  }

  const std::string path_ = absl::StrCat(testing::TempDir(), "/tenants.txtpb");
  const std::shared_ptr<spdlog::logger> log_ =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  std::unique_ptr<Identity> identity_;
};

TEST_F(IdentityTest, AFileThatIsReadAgainCountsAsAWholeOrNotAtAll) {
  Write(With("a", "one"));
  Open(absl::Hours(1));
  EXPECT_EQ(NameOf("Bearer one"), "a");
  Write(With("b", "two"));
  EXPECT_EQ(NameOf("Bearer two"), "");
  EXPECT_TRUE(identity_->Reload().ok());
  EXPECT_EQ(NameOf("Bearer two"), "b");
  EXPECT_EQ(NameOf("Bearer one"), "");
  Write(With("c", "three") + " tenant { name: \"d\" }");
  EXPECT_FALSE(identity_->Reload().ok());
  EXPECT_EQ(NameOf("Bearer two"), "b");
  EXPECT_EQ(NameOf("Bearer three"), "");
  std::remove(path_.c_str());
  EXPECT_FALSE(identity_->Reload().ok());
  EXPECT_EQ(NameOf("Bearer two"), "b");
}

TEST_F(IdentityTest, AccountsGetTheLimitsThatAreInForce) {
  const std::string quota = "default_quota { handles: 7 sessions: 3 }";
  Write(absl::StrCat(quota, With("a", "one"),
                     "tenant { name: \"b\" certificate: \"b\" quota { handles: 9 } weight: 3 class: INTERACTIVE }"));
  Accounts accounts;
  const auto apply = [&accounts](const std::vector<TenantPtr>& tenants, const Identity::NameSet&) {
    for (const TenantPtr& tenant : tenants) {
      if (tenant->quota[static_cast<size_t>(Quota::kHandles)] == 99) return absl::UnknownError("no room");
    }
    for (const TenantPtr& tenant : tenants) {
      accounts.Of(tenant->name)->SetLimits(tenant->quota);
      accounts.Of(tenant->name)->SetShare(tenant->weight, tenant->interactive);
    }
    return absl::OkStatus();
  };
  auto identity = Identity::Open(path_, log_, absl::Hours(1), {.apply = apply});
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(accounts.Of("a")->limit(Quota::kHandles), 7u);
  EXPECT_EQ(accounts.Of("b")->limit(Quota::kHandles), 9u);
  EXPECT_EQ(accounts.Of("b")->limit(Quota::kSessions), 3u);
  EXPECT_EQ(accounts.Of("b")->limit(Quota::kDeviceBytes), 0u);
  EXPECT_EQ(accounts.Of("a")->weight(), 1u);
  EXPECT_FALSE(accounts.Of("a")->interactive());
  EXPECT_EQ(accounts.Of("b")->weight(), 3u);
  EXPECT_TRUE(accounts.Of("b")->interactive());
  const Charge held = *Hold(accounts.Of("a"), Quota::kHandles, 5);
  Write(With("a", "one") + "tenant { name: \"b\" }");
  EXPECT_FALSE((*identity)->Reload().ok());
  EXPECT_EQ(accounts.Of("a")->limit(Quota::kHandles), 7u);
  Write("default_quota { handles: 4 }" + With("a", "one"));
  EXPECT_TRUE((*identity)->Reload().ok());
  EXPECT_EQ(accounts.Of("a")->limit(Quota::kHandles), 4u);
  EXPECT_EQ(accounts.Of("a")->used(Quota::kHandles), 5u);
  // What the server cannot keep is as wrong as what it cannot read.
  Write("default_quota { handles: 99 }" + With("a", "two"));
  EXPECT_EQ((*identity)->Reload().message(), "no room");
  EXPECT_EQ(accounts.Of("a")->limit(Quota::kHandles), 4u);
  EXPECT_TRUE((*identity)->Identify({"Bearer one", {}}, absl::Now()).ok());
  EXPECT_FALSE(Identity::Open(path_, log_, absl::Hours(1), {.apply = apply}).ok());
}

TEST_F(IdentityTest, ATenantThatHasGoneIsNotWhoComesBackUnderItsName) {
  std::string stayed, there, left;
  const auto apply = [&](const std::vector<TenantPtr>&, const Identity::NameSet& names) {
    stayed = absl::StrJoin(names, " ");
    return absl::OkStatus();
  };
  const auto in_force = [&](const Identity::NameSet& now, const Identity::NameSet& gone) {
    there = absl::StrJoin(now, " ");
    left = absl::StrJoin(gone, " ");
  };
  Write(With("a", "one") + With("b", "two"));
  auto opened = Identity::Open(path_, log_, absl::Hours(1), {.apply = apply, .in_force = in_force});
  ASSERT_TRUE(opened.ok()) << opened.status();
  identity_ = *std::move(opened);
  EXPECT_EQ(stayed, "");
  const TenantPtr a = identity_->Identify({"Bearer one", {}}, kNow)->tenant,
                  b = identity_->Identify({"Bearer two", {}}, kNow)->tenant;
  EXPECT_TRUE(identity_->IsInForce(a));
  EXPECT_TRUE(identity_->Reload().ok());
  EXPECT_EQ(stayed, "a b");
  EXPECT_EQ(left, "");
  EXPECT_TRUE(identity_->IsInForce(a));  // another object of the same tenant is what Identify() says now
  Write(With("b", "two"));
  EXPECT_TRUE(identity_->Reload().ok());
  EXPECT_EQ(stayed, "b");
  EXPECT_EQ(left, "a");
  EXPECT_FALSE(identity_->IsInForce(a));
  Write(With("a", "three") + With("b", "two"));
  EXPECT_TRUE(identity_->Reload().ok());
  EXPECT_EQ(stayed, "b");  // a is another one
  EXPECT_EQ(there, "a b");
  EXPECT_FALSE(identity_->IsInForce(a));
  EXPECT_TRUE(identity_->IsInForce(b));
  EXPECT_TRUE(identity_->IsInForce(identity_->Identify({"Bearer three", {}}, kNow)->tenant));
}

TEST_F(IdentityTest, AFileThatChangesIsReadByItself) {
  Write(With("a", "one"));
  Open(absl::Milliseconds(1));
  Write(With("b", "two"));
  while (NameOf("Bearer two") != "b") std::this_thread::yield();
  EXPECT_EQ(NameOf("Bearer one"), "");
}

TEST_F(IdentityTest, WhoAsksWhileTheFileChangesIsKnownByOneOfThem) {
  Write(With("a", "one"));
  Open(absl::Hours(1));
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!stop.load()) {
        const std::string name = NameOf("Bearer one");
        if (name != "a" && name != "b") ++wrong;
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    Write(With(i % 2 == 0 ? "b" : "a", "one"));
    EXPECT_TRUE(identity_->Reload().ok());
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(IdentityTest, AFileThatIsNotThereIsNamed) {
  const auto identity = Identity::Open("/nonexistent/tenants", log_);
  EXPECT_EQ(DetailOf(identity.status())->field(), "tenants");
  EXPECT_NE(identity.status().message().find("/nonexistent/tenants"), absl::string_view::npos);
}

}  // namespace
}  // namespace kiln::server
