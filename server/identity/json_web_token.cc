#include "server/identity/json_web_token.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace kiln::server {
namespace {

using nlohmann::json;

// The JSON object that a part of a token is.
bool Decode(absl::string_view part, json& object) {
  std::string text;
  if (!DecodeBase64Url(part, text)) return false;
  object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return object.is_object();
}

std::string Text(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// A NumericDate: seconds since 1970.
std::optional<absl::Time> TimeIn(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const double seconds = found->get<double>();
  if (!(std::abs(seconds) < 1e11)) return std::nullopt;
  return absl::FromUnixSeconds(static_cast<int64_t>(seconds));
}

bool IsFor(const json& claims, const std::string& audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (found->is_string()) return found->get<std::string>() == audience;
  return found->is_array() && std::any_of(found->begin(), found->end(), [&audience](const json& one) {
           return one.is_string() && one.get<std::string>() == audience;
         });
}

// The key that the token names or, if it names none, the only one of its algorithm.
const JsonWebKey* KeyOf(const TokenIssuer& issuer, const std::string& id, const std::string& algorithm) {
  const JsonWebKey* found = nullptr;
  for (const JsonWebKey& key : issuer.keys) {
    if (key.algorithm != algorithm || (!id.empty() && key.id != id)) continue;
    if (found != nullptr) return nullptr;
    found = &key;
  }
  return found;
}

}  // namespace

absl::Status NotAuthenticated(absl::string_view message) { return MakeError(v1::NOT_AUTHENTICATED, message); }

bool LooksLikeJwt(absl::string_view token) { return std::count(token.begin(), token.end(), '.') == 2; }

absl::StatusOr<TokenClaims> CheckJwt(absl::string_view token, const std::vector<TokenIssuer>& issuers, absl::Time now) {
  if (token.size() > kMaxTokenBytes) {
    return NotAuthenticated(
        absl::StrCat("a token has at most ", kMaxTokenBytes, " bytes; this one has ", token.size()));
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  json header, claims;
  std::string signature;
  if (parts.size() != 3 || !Decode(parts[0], header) || !Decode(parts[1], claims) ||
      !DecodeBase64Url(parts[2], signature)) {
    return NotAuthenticated("the token is no JSON Web Token: three parts in base64url, the first two JSON objects");
  }
  if (header.contains("crit")) return NotAuthenticated("the token has critical extensions, which this server has not");
  const std::string name = Text(claims, "iss");
  const auto issuer =
      std::find_if(issuers.begin(), issuers.end(), [&name](const auto& one) { return one.name == name; });
  if (issuer == issuers.end()) {
    return NotAuthenticated(
        absl::StrCat("the token's issuer, \"", absl::CEscape(name), "\", is none of this server's"));
  }
  if (issuer->keys.empty()) {
    return NotAuthenticated(absl::StrCat("the keys of the token's issuer, \"", absl::CEscape(name),
                                         "\", are not known: it has not answered this server yet"));
  }
  const std::string algorithm = Text(header, "alg");
  const JsonWebKey* key = KeyOf(*issuer, Text(header, "kid"), algorithm);
  if (key == nullptr) {
    return NotAuthenticated(absl::StrCat("the issuer has no key \"", absl::CEscape(Text(header, "kid")), "\" for \"",
                                         absl::CEscape(algorithm), "\""));
  }
  if (!Verifies(*key, token.substr(0, token.size() - parts[2].size() - 1), signature)) {
    return NotAuthenticated("the token's signature is not its issuer's");
  }
  if (!IsFor(claims, issuer->audience)) {
    return NotAuthenticated(absl::StrCat("the token is not for the audience \"", issuer->audience, "\""));
  }
  const auto expires = TimeIn(claims, "exp");
  if (!expires.has_value()) return NotAuthenticated("the token does not say when it expires (\"exp\")");
  if (now >= *expires + issuer->leeway) {
    return NotAuthenticated(absl::StrCat("the token expired at ", absl::FormatTime(*expires, absl::UTCTimeZone())));
  }
  const auto begins = TimeIn(claims, "nbf");
  if (claims.contains("nbf") && (!begins.has_value() || now + issuer->leeway < *begins)) {
    return NotAuthenticated("the token does not count yet (\"nbf\")");
  }
  TokenClaims found{name, Text(claims, "sub"), *expires + issuer->leeway};
  if (found.subject.empty()) return NotAuthenticated("the token does not say whose it is (\"sub\")");
  return found;
}

}  // namespace kiln::server
