#include "server/identity/json_web_token.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/rsa.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "gtest/gtest.h"

namespace kiln::server {
namespace {

using Key = std::unique_ptr<EVP_PKEY, JsonWebKey::Free>;

std::string Encode(absl::string_view bytes) { return absl::WebSafeBase64Escape(bytes); }

// What an issuer has: the other side of json_web_key.cc, by other functions of OpenSSL.
class Signer {
 public:
  explicit Signer(const std::string& algorithm, size_t bits = 2048) : algorithm_(algorithm) {
    if (algorithm == "RS256") key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", bits));
    if (algorithm == "ES256") key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
    if (algorithm == "EdDSA") key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  }

  std::string Jwk(const std::string& id) const {
    if (algorithm_ == "RS256") {
      return absl::StrCat(R"({"kty":"RSA","kid":")", id, R"(","n":")", Number(OSSL_PKEY_PARAM_RSA_N), R"(","e":")",
                          Number(OSSL_PKEY_PARAM_RSA_E), R"("})");
    }
    if (algorithm_ == "ES256") {
      return absl::StrCat(R"({"kty":"EC","crv":"P-256","kid":")", id, R"(","x":")",
                          Number(OSSL_PKEY_PARAM_EC_PUB_X, 32), R"(","y":")", Number(OSSL_PKEY_PARAM_EC_PUB_Y, 32),
                          R"("})");
    }
    unsigned char x[32];
    size_t size = sizeof(x);
    EVP_PKEY_get_raw_public_key(key_.get(), x, &size);
    return absl::StrCat(R"({"kty":"OKP","crv":"Ed25519","kid":")", id, R"(","x":")",
                        Encode({reinterpret_cast<const char*>(x), size}), R"("})");
  }

  std::string Sign(absl::string_view text) const {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    EVP_DigestSignInit(context, nullptr, algorithm_ == "EdDSA" ? nullptr : EVP_sha256(), nullptr, key_.get());
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    size_t size = 0;
    EVP_DigestSign(context, nullptr, &size, bytes, text.size());
    std::string signature(size, '\0');
    EVP_DigestSign(context, reinterpret_cast<unsigned char*>(&signature[0]), &size, bytes, text.size());
    EVP_MD_CTX_free(context);
    signature.resize(size);
    return algorithm_ == "ES256" ? Halves(signature) : signature;
  }

  std::string Token(const std::string& header, const std::string& claims) const {
    const std::string text = absl::StrCat(Encode(header), ".", Encode(claims));
    return absl::StrCat(text, ".", Encode(Sign(text)));
  }

 private:
  std::string Number(const char* name, int size = 0) const {
    BIGNUM* number = nullptr;
    EVP_PKEY_get_bn_param(key_.get(), name, &number);
    std::string bytes(size == 0 ? BN_num_bytes(number) : size, '\0');
    BN_bn2binpad(number, reinterpret_cast<unsigned char*>(&bytes[0]), static_cast<int>(bytes.size()));
    BN_free(number);
    return Encode(bytes);
  }
  static std::string Halves(const std::string& der) {
    const auto* at = reinterpret_cast<const unsigned char*>(der.data());
    ECDSA_SIG* numbers = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size()));
    std::string halves(64, '\0');
    auto* out = reinterpret_cast<unsigned char*>(&halves[0]);
    BN_bn2binpad(ECDSA_SIG_get0_r(numbers), out, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(numbers), out + 32, 32);
    ECDSA_SIG_free(numbers);
    return halves;
  }

  const std::string algorithm_;
  Key key_;
};

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr char kGood[] =
    R"({"iss":"https://issuer","aud":["kiln","x"],"sub":"system:a","exp":1800000100,"nbf":1799999990})";

TokenIssuer IssuerWith(const std::string& jwks) {
  auto keys = ParseJsonWebKeys(jwks);
  EXPECT_TRUE(keys.ok()) << keys.status();
  return {"https://issuer", "kiln", *std::move(keys), absl::Seconds(5)};
}

std::vector<TokenIssuer> OneIssuer(const Signer& signer) {
  std::vector<TokenIssuer> issuers;
  issuers.push_back(IssuerWith(absl::StrCat(R"({"keys":[)", signer.Jwk("k"), "]}")));
  return issuers;
}

void ExpectRefused(const absl::StatusOr<TokenClaims>& claims, absl::string_view part) {
  ASSERT_FALSE(claims.ok()) << part;
  EXPECT_EQ(DetailOf(claims.status())->code(), v1::NOT_AUTHENTICATED);
  EXPECT_NE(claims.status().message().find(part), absl::string_view::npos) << claims.status();
}

class EveryAlgorithm : public testing::TestWithParam<const char*> {
 protected:
  const Signer signer_{GetParam()};
  const std::vector<TokenIssuer> issuers_ = OneIssuer(signer_);
  const std::string header_ = absl::StrCat(R"({"alg":")", GetParam(), R"(","kid":"k"})");

  absl::StatusOr<TokenClaims> Check(const std::string& token) { return CheckJwt(token, issuers_, kNow); }
  absl::StatusOr<TokenClaims> With(absl::string_view from, absl::string_view to) {
    return Check(signer_.Token(header_, absl::StrReplaceAll(kGood, {{from, to}})));
  }
};

TEST_P(EveryAlgorithm, SaysWhoTheBearerIs) {
  const auto claims = Check(signer_.Token(header_, kGood));
  ASSERT_TRUE(claims.ok()) << claims.status();
  EXPECT_EQ(claims->issuer, "https://issuer");
  EXPECT_EQ(claims->subject, "system:a");
  EXPECT_EQ(claims->expires, absl::FromUnixSeconds(1800000105));
  EXPECT_TRUE(With(R"(["kiln","x"])", R"("kiln")").ok());
  EXPECT_TRUE(Check(signer_.Token(absl::StrReplaceAll(header_, {{R"(,"kid":"k")", ""}}), kGood)).ok());
}

TEST_P(EveryAlgorithm, RefusesWhatIsNotTheIssuers) {
  const std::string token = signer_.Token(header_, kGood);
  // Each character of a token counts, but for the last of a part, of which some bits do not.
  int refused = 0;
  for (size_t i = 0; i < token.size(); i += 7) {
    std::string other = token;
    other[i] = other[i] == 'A' ? 'B' : 'A';
    refused += !Check(other).ok();
  }
  EXPECT_GE(refused, static_cast<int>(token.size() / 7) - 3);
  ExpectRefused(Check(Signer(GetParam()).Token(header_, kGood)), "signature");
  ExpectRefused(Check(signer_.Token(absl::StrReplaceAll(header_, {{R"("k")", R"("other")"}}), kGood)), "no key");
  ExpectRefused(Check(absl::StrCat(token.substr(0, token.rfind('.')), ".")), "signature");
}

TEST_P(EveryAlgorithm, RefusesClaimsThatDoNotCount) {
  ExpectRefused(With("https://issuer", "https://other"), "none of this server's");
  ExpectRefused(With("kiln", "other"), "audience");
  ExpectRefused(With(R"("aud":["kiln","x"],)", ""), "audience");
  ExpectRefused(With("1800000100", "1799999995"), "expired");
  EXPECT_TRUE(With("1800000100", "1799999996").ok());  // within the leeway
  ExpectRefused(With(R"("exp":1800000100,)", ""), "exp");
  ExpectRefused(With("1800000100", R"("never")"), "exp");
  ExpectRefused(With("1800000100", "1e300"), "exp");
  ExpectRefused(With("1799999990", "1800000006"), "nbf");
  EXPECT_TRUE(With("1799999990", "1800000005").ok());
  ExpectRefused(With("1799999990", "true"), "nbf");
  ExpectRefused(With(R"("sub":"system:a",)", ""), "sub");
  ExpectRefused(With(R"("system:a")", "7"), "sub");
}

TEST_P(EveryAlgorithm, TakesNoOtherAlgorithmFromTheToken) {
  for (const char* algorithm : {"none", "None", "HS256", "RS256", "ES256", "EdDSA", "RS512", ""}) {
    if (algorithm == std::string(GetParam())) continue;
    const std::string header = absl::StrCat(R"({"alg":")", algorithm, R"(","kid":"k"})");
    ExpectRefused(Check(signer_.Token(header, kGood)), "no key");
    ExpectRefused(Check(absl::StrCat(Encode(header), ".", Encode(kGood), ".")), "no key");
  }
  ExpectRefused(Check(signer_.Token(absl::StrReplaceAll(header_, {{"{", R"({"crit":["exp"],)"}}), kGood)), "critical");
}

INSTANTIATE_TEST_SUITE_P(Json, EveryAlgorithm, testing::Values("RS256", "ES256", "EdDSA"));

TEST(JsonWebToken, RefusesWhatIsNone) {
  const Signer signer("EdDSA");
  const auto issuers = OneIssuer(signer);
  const std::string good = signer.Token(R"({"alg":"EdDSA"})", kGood);
  for (const std::string& token :
       {std::string(), std::string(".."), std::string("a.b"), good + ".x", "=" + good, good + "=", good + "\n",
        absl::StrCat(Encode("[]"), ".", Encode("{}"), "."), absl::StrCat(Encode("{"), ".", Encode("{}"), "."),
        std::string(absl::StrReplaceAll(good, {{"-", "+"}, {"_", "/"}})) + "+"}) {
    ExpectRefused(CheckJwt(token, issuers, kNow), "no JSON Web Token");
  }
  ExpectRefused(CheckJwt(std::string(kMaxTokenBytes + 1, 'a'), issuers, kNow), "at most");
  ExpectRefused(CheckJwt(std::string(kMaxTokenBytes, '['), issuers, kNow), "no JSON Web Token");
  EXPECT_TRUE(CheckJwt(good, issuers, kNow).ok());
}

TEST(JsonWebKeys, KeysOfOtherUsesArePassedOver) {
  const Signer rsa("RS256"), ec("ES256");
  const auto keys = ParseJsonWebKeys(absl::StrCat(
      R"({"keys":[{"kty":"oct","k":"AA"},{"kty":"EC","crv":"P-384","x":"AA","y":"AA"},)",
      absl::StrReplaceAll(rsa.Jwk("e"), {{"{", R"({"use":"enc",)"}}), ",",
      absl::StrReplaceAll(rsa.Jwk("512"), {{"{", R"({"alg":"RS512",)"}}), ",", rsa.Jwk("a"), ",", ec.Jwk("b"), "]}"));
  ASSERT_TRUE(keys.ok()) << keys.status();
  ASSERT_EQ(keys->size(), 2u);
  EXPECT_EQ((*keys)[0].id, "a");
  EXPECT_EQ((*keys)[0].algorithm, "RS256");
  EXPECT_EQ((*keys)[1].algorithm, "ES256");
}

TEST(JsonWebKeys, BadOnesAreRefusedByName) {
  const Signer ec("ES256"), edwards("EdDSA");
  const auto refused = [](const std::string& json, absl::string_view part) {
    const auto keys = ParseJsonWebKeys(json);
    ASSERT_FALSE(keys.ok()) << json;
    EXPECT_EQ(DetailOf(keys.status())->field(), "jwks_file");
    EXPECT_NE(keys.status().message().find(part), absl::string_view::npos) << keys.status();
  };
  refused("", "no JSON Web Key Set");
  refused("[]", "no JSON Web Key Set");
  refused(R"({"keys":{}})", "no JSON Web Key Set");
  refused(R"({"keys":[]})", "no key");
  refused(absl::StrCat(R"({"keys":[)", Signer("RS256", 1024).Jwk("small"), "]}"), "2048 bits");
  refused(absl::StrCat(R"({"keys":[)", ec.Jwk("a"), ",", edwards.Jwk("a"), "]}"), "twice");
  refused(R"({"keys":[{"kty":"EC","crv":"P-256","kid":"off","x":")" + Encode(std::string(32, '\1')) + R"(","y":")" +
              Encode(std::string(32, '\1')) + R"("}]})",
          "\"off\"");
  refused(R"({"keys":[{"kty":"RSA","kid":"none"}]})", "\"none\"");
}

}  // namespace
}  // namespace kiln::server
