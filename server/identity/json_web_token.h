// JSON Web Tokens (RFC 7519, as RFC 8725 wants them checked): who a token says its bearer is.
#ifndef KILN_SERVER_IDENTITY_JSON_WEB_TOKEN_H_
#define KILN_SERVER_IDENTITY_JSON_WEB_TOKEN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/identity/json_web_key.h"

namespace kiln::server {

inline constexpr size_t kMaxTokenBytes = 16 << 10;

struct TokenIssuer {
  std::string name;
  std::string audience;
  std::vector<JsonWebKey> keys;  // none: they could not be had, and none of its tokens counts
  absl::Duration leeway;
};

struct TokenClaims {
  std::string issuer;
  std::string subject;
  absl::Time expires;
};

// Whether `token` looks like one: three parts.
bool LooksLikeJwt(absl::string_view token);

// NOT_AUTHENTICATED saying what is wrong, unless one of `issuers` signed the token for its
// audience and it counts at `now`. The algorithm is the key's, whatever the token says:
// "none" is never one.
absl::StatusOr<TokenClaims> CheckJwt(absl::string_view token, const std::vector<TokenIssuer>& issuers, absl::Time now);

// What every failure to say who one is gets.
absl::Status NotAuthenticated(absl::string_view message);

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_JSON_WEB_TOKEN_H_
