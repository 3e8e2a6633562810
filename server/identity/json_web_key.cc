#include "server/identity/json_web_key.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/param_build.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

using nlohmann::json;

template <typename T, void (*Release)(T*)>
struct Releases {
  void operator()(T* object) const { Release(object); }
};
using Context = std::unique_ptr<EVP_PKEY_CTX, Releases<EVP_PKEY_CTX, EVP_PKEY_CTX_free>>;
using Number = std::unique_ptr<BIGNUM, Releases<BIGNUM, BN_free>>;
using Builder = std::unique_ptr<OSSL_PARAM_BLD, Releases<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, Releases<OSSL_PARAM, OSSL_PARAM_free>>;
using PublicKey = std::unique_ptr<EVP_PKEY, JsonWebKey::Free>;

// Of a P-256 coordinate, an Ed25519 key, and each half of an ES256 signature.
constexpr size_t kCoordinate = 32;
constexpr int kMinRsaBits = 2048;

absl::Status BadKeys(absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("jwks_file");
  return MakeError(detail, message);
}

std::string Text(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The bytes of a member in base64url; empty if it has none.
std::string Bytes(const json& object, const char* name) {
  std::string bytes;
  return DecodeBase64Url(Text(object, name), bytes) ? bytes : std::string();
}

const unsigned char* Raw(absl::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

PublicKey FromParams(const char* kind, OSSL_PARAM_BLD* builder) {
  const Params params(OSSL_PARAM_BLD_to_param(builder));
  const Context context(EVP_PKEY_CTX_new_from_name(nullptr, kind, nullptr));
  EVP_PKEY* key = nullptr;
  if (params == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    return nullptr;
  }
  PublicKey made(key);
  const Context check(EVP_PKEY_CTX_new(key, nullptr));
  return check != nullptr && EVP_PKEY_public_check(check.get()) == 1 ? std::move(made) : nullptr;
}

PublicKey RsaKey(const json& object) {
  const std::string n = Bytes(object, "n"), e = Bytes(object, "e");
  if (n.empty() || e.empty() || n.size() > 2048 || e.size() > 8) return nullptr;
  const Number modulus(BN_bin2bn(Raw(n), static_cast<int>(n.size()), nullptr));
  const Number exponent(BN_bin2bn(Raw(e), static_cast<int>(e.size()), nullptr));
  if (BN_num_bits(modulus.get()) < kMinRsaBits) return nullptr;
  const Builder builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get());
  return FromParams("RSA", builder.get());
}

PublicKey EcKey(const json& object) {
  const std::string x = Bytes(object, "x"), y = Bytes(object, "y");
  if (x.size() != kCoordinate || y.size() != kCoordinate) return nullptr;
  const std::string point = absl::StrCat("\x04", x, y);  // uncompressed
  const Builder builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size());
  return FromParams("EC", builder.get());
}

PublicKey EdwardsKey(const json& object) {
  const std::string x = Bytes(object, "x");
  if (x.size() != kCoordinate) return nullptr;
  return PublicKey(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Raw(x), x.size()));
}

// Which keys verify what. `curve` is null where the kind has none.
struct Kind {
  const char* type;  // "kty"
  const char* curve;
  const char* algorithm;
  PublicKey (*read)(const json& object);
};
constexpr Kind kKinds[] = {
    {"RSA", nullptr, "RS256", RsaKey},
    {"EC", "P-256", "ES256", EcKey},
    {"OKP", "Ed25519", "EdDSA", EdwardsKey},
};

// Null if the key is of no use here.
const Kind* KindOf(const json& object) {
  const std::string use = Text(object, "use"), algorithm = Text(object, "alg");
  if (!use.empty() && use != "sig") return nullptr;
  for (const Kind& kind : kKinds) {
    if (Text(object, "kty") != kind.type || (kind.curve != nullptr && Text(object, "crv") != kind.curve)) continue;
    return algorithm.empty() || algorithm == kind.algorithm ? &kind : nullptr;
  }
  return nullptr;
}

// OpenSSL wants DER, a token has the two numbers one after the other.
std::string ToDer(absl::string_view signature) {
  if (signature.size() != 2 * kCoordinate) return "";
  const std::unique_ptr<ECDSA_SIG, Releases<ECDSA_SIG, ECDSA_SIG_free>> numbers(ECDSA_SIG_new());
  ECDSA_SIG_set0(numbers.get(), BN_bin2bn(Raw(signature), kCoordinate, nullptr),
                 BN_bin2bn(Raw(signature) + kCoordinate, kCoordinate, nullptr));
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(numbers.get(), &der);
  const std::string bytes(reinterpret_cast<const char*>(der), size > 0 ? static_cast<size_t>(size) : 0);
  OPENSSL_free(der);
  return bytes;
}

}  // namespace

bool DecodeBase64Url(absl::string_view text, std::string& bytes) {
  // Abseil's decoder lets padding and '.' pass.
  const auto digit = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; };
  return std::all_of(text.begin(), text.end(), digit) && absl::WebSafeBase64Unescape(text, &bytes);
}

absl::StatusOr<std::vector<JsonWebKey>> ParseJsonWebKeys(absl::string_view text) {
  const json set = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!set.is_object() || !set.contains("keys") || !set["keys"].is_array()) {
    return BadKeys("it is no JSON Web Key Set: an object with an array \"keys\"");
  }
  std::vector<JsonWebKey> keys;
  for (const json& object : set["keys"]) {
    const Kind* kind = object.is_object() ? KindOf(object) : nullptr;
    if (kind == nullptr) continue;
    JsonWebKey key{Text(object, "kid"), kind->algorithm, kind->read(object)};
    const std::string name = absl::StrCat("key ", keys.size(), " (kid \"", absl::CEscape(key.id), "\")");
    if (key.key == nullptr) {
      return BadKeys(absl::StrCat(name, " is no ", kind->type, " key for ", kind->algorithm,
                                  "; RSA keys have at least ", kMinRsaBits, " bits"));
    }
    const auto same = [&key](const JsonWebKey& other) { return other.id == key.id; };
    if (std::any_of(keys.begin(), keys.end(), same)) return BadKeys(absl::StrCat(name, " is there twice"));
    keys.push_back(std::move(key));
  }
  if (keys.empty()) return BadKeys("it has no key for RS256, ES256 or EdDSA");
  return keys;
}

bool Verifies(const JsonWebKey& key, absl::string_view text, absl::string_view signature) {
  const bool edwards = key.algorithm == "EdDSA";
  const std::string der = key.algorithm == "ES256" ? ToDer(signature) : std::string();
  if (key.algorithm == "ES256") signature = der;
  const std::unique_ptr<EVP_MD_CTX, Releases<EVP_MD_CTX, EVP_MD_CTX_free>> context(EVP_MD_CTX_new());
  return !signature.empty() &&
         EVP_DigestVerifyInit(context.get(), nullptr, edwards ? nullptr : EVP_sha256(), nullptr, key.key.get()) == 1 &&
         EVP_DigestVerify(context.get(), Raw(signature), signature.size(), Raw(text), text.size()) == 1;
}

}  // namespace kiln::server
