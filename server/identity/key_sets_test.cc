// Issuers that are asked by URL: what counts while one does not answer. By HTTP, tests/python/server/issuers_test.py.
#include "server/identity/key_sets.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "server/identity/identity.h"

namespace kiln::server {
namespace {

// Of Ed25519 keys of RFC 8037, A.2, and RFC 8032, 7.1.
constexpr char kFirst[] =
    R"({"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})";
constexpr char kSecond[] =
    R"({"keys":[{"kty":"OKP","crv":"Ed25519","kid":"b","x":"PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw"}]})";

KeySource Url(const std::string& url) { return {.file = "", .url = url, .ca_file = "", .token_file = ""}; }

class KeySetsTest : public testing::Test {
 protected:
  absl::StatusOr<std::string> Read(const KeySource& source) {
    absl::MutexLock lock(&mutex_);
    ++asked_;
    mutex_.Await(absl::Condition(&answers_));
    const auto found = keys_.find(source.url);
    if (found == keys_.end()) return absl::UnavailableError("the answer is HTTP 500");
    return found->second;
  }
  void Say(const std::string& url, const std::string& keys) {
    absl::MutexLock lock(&mutex_);
    keys_[url] = keys;
  }

  absl::Mutex mutex_;
  std::map<std::string, std::string> keys_ ABSL_GUARDED_BY(mutex_);
  bool answers_ ABSL_GUARDED_BY(mutex_) = true;
  int asked_ ABSL_GUARDED_BY(mutex_) = 0;
  KeySets sets_{[this](const KeySource& source) { return Read(source); }};
};

TEST_F(KeySetsTest, TheLastGoodAnswerOfEachCounts) {
  const KeySource a = Url("https://a/"), b = Url("https://b/");
  EXPECT_NE(sets_.Of(a).status().message().find("https://a/ has not been asked yet"), absl::string_view::npos);
  Say("https://a/", kFirst);
  KeySets::Asked asked = sets_.Ask({a, b, a});
  EXPECT_TRUE(asked.changed);
  ASSERT_EQ(asked.faults.size(), 1u);
  EXPECT_EQ(asked.faults[0].source.url, "https://b/");
  EXPECT_FALSE(asked.faults[0].has_keys);
  EXPECT_EQ(*sets_.Of(a), kFirst);
  EXPECT_EQ(sets_.Of(b).status().message(), "the answer is HTTP 500");
  EXPECT_FALSE(sets_.Ask({a, b}).changed);
  // What is no set of keys is no answer.
  for (const char* bad : {"", "<html>", "{\"keys\":[]}"}) {
    Say("https://a/", bad);
    asked = sets_.Ask({a});
    EXPECT_FALSE(asked.changed) << bad;
    ASSERT_EQ(asked.faults.size(), 1u) << bad;
    EXPECT_TRUE(asked.faults[0].has_keys) << bad;
    EXPECT_EQ(*sets_.Of(a), kFirst) << bad;
  }
  Say("https://a/", kSecond);
  asked = sets_.Ask({a});
  EXPECT_TRUE(asked.changed && asked.faults.empty());
  EXPECT_EQ(*sets_.Of(a), kSecond);
  // One that is asked no more is forgotten; with another token it is another.
  KeySource with_token = a;
  with_token.token_file = "t";
  EXPECT_FALSE(sets_.Of(with_token).ok());
  sets_.Ask({});
  EXPECT_FALSE(sets_.Of(a).ok());
}

class IssuersTest : public KeySetsTest {
 protected:
  ~IssuersTest() override { std::remove(path_.c_str()); }
  // A tenant for each secret, with the issuers of these URLs.
  void Write(const std::vector<std::string>& urls, const std::vector<std::string>& secrets) {
    std::string text;
    for (const std::string& url : urls)
      absl::StrAppend(&text, "issuer { name: \"", url, "\" audience: \"k\" jwks_url: \"", url, "\" }\n");
    for (const std::string& secret : secrets) {
      const Sha256 digest = Sha256Of(secret);
      absl::StrAppend(&text, "tenant { name: \"", secret, "\" token { sha256: \"",
                      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}),
                      "\" } }\n");
    }
    std::ofstream(path_) << text;
  }
  void Open() {
    Identity::Hooks hooks;
    hooks.unanswered = [this](size_t issuers) { unanswered_.fetch_add(issuers); };
    auto identity = Identity::Open(path_, log_, absl::Hours(1), std::move(hooks),
                                   [this](const KeySource& source) { return Read(source); });
    ASSERT_TRUE(identity.ok()) << identity.status();
    identity_ = *std::move(identity);
  }
  std::string WhyNot(const std::string& token) {
    return std::string(identity_->Identify({absl::StrCat("Bearer ", token), {}}, absl::Now()).status().message());
  }
  // Of an issuer, by the key of that name; signed by nobody.
  std::string Forged(const std::string& issuer, const std::string& key) {
    const auto part = [](const std::string& json) {
      std::string text = absl::WebSafeBase64Escape(json);
      return text;
    };
    return absl::StrCat(part(absl::StrCat(R"({"alg":"EdDSA","kid":")", key, "\"}")), ".",
                        part(absl::StrCat(R"({"iss":")", issuer, "\"}")), ".AAAA");
  }

  const std::string path_ = absl::StrCat(testing::TempDir(), "/issuers.txtpb");
  std::ostringstream said_;
  const std::shared_ptr<spdlog::logger> log_ =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(said_));
  std::atomic<size_t> unanswered_{0};
  std::unique_ptr<Identity> identity_;
};

TEST_F(IssuersTest, OneThatNeverAnsweredRefusesItsTokensAndNothingElse) {
  Write({"https://a/", "https://b/"}, {"one", "two"});
  Say("https://a/", kFirst);
  Open();
  EXPECT_EQ(WhyNot("one"), "");
  EXPECT_EQ(WhyNot(Forged("https://a/", "a")), "the token's signature is not its issuer's");
  EXPECT_EQ(WhyNot(Forged("https://b/", "a")),
            "the keys of the token's issuer, \"https://b/\", are not known: it has not answered this server yet");
  EXPECT_EQ(unanswered_.load(), 1u);
  EXPECT_TRUE(absl::StrContains(said_.str(),
                                "event=issuer_unanswered url=\"https://b/\" reason=\"the answer is HTTP "
                                "500\" in_force=\"none of its tokens\""))
      << said_.str();
  // Whoever checks the file is told.
  EXPECT_FALSE(Tenants::Parse("issuer { name: \"i\" audience: \"k\" jwks_url: \"https://b/\" }",
                              [this](const KeySource& source) { return Read(source); })
                   .ok());
}

TEST_F(IssuersTest, AFileIsInForceAtOnceWhileOneDoesNotAnswer) {
  Write({"https://a/"}, {"one", "two"});
  Say("https://a/", kFirst);
  Open();
  {
    absl::MutexLock lock(&mutex_);
    answers_ = false;
    asked_ = 0;
  }
  // It is asked, and says nothing; and is being asked when the file changes again.
  EXPECT_TRUE(identity_->Reload().ok());
  {
    absl::MutexLock lock(&mutex_);
    const auto is_asked = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return asked_ > 0; };
    mutex_.Await(absl::Condition(&is_asked));
  }
  Write({"https://a/", "https://b/"}, {"two"});
  EXPECT_TRUE(identity_->Reload().ok());
  EXPECT_EQ(WhyNot("one"), "the token is none of this server's");
  EXPECT_EQ(WhyNot("two"), "");
  EXPECT_EQ(WhyNot(Forged("https://a/", "a")), "the token's signature is not its issuer's");
  EXPECT_NE(WhyNot(Forged("https://b/", "b")).find("are not known"), std::string::npos);
  // What it answers counts by itself, and so do keys that come instead of others.
  {
    absl::MutexLock lock(&mutex_);
    keys_ = {{"https://a/", kSecond}, {"https://b/", kSecond}};
    answers_ = true;
  }
  while (WhyNot(Forged("https://b/", "b")) != "the token's signature is not its issuer's") std::this_thread::yield();
  EXPECT_EQ(WhyNot(Forged("https://a/", "a")), "the issuer has no key \"a\" for \"EdDSA\"");
}

}  // namespace
}  // namespace kiln::server
