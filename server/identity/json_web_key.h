// Public keys as a JSON Web Key Set holds them (RFC 7517, RFC 7518, RFC 8037), and the
// signatures that they verify. The cryptography is OpenSSL's.
#ifndef KILN_SERVER_IDENTITY_JSON_WEB_KEY_H_
#define KILN_SERVER_IDENTITY_JSON_WEB_KEY_H_

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::server {

struct JsonWebKey {
  struct Free {
    void operator()(EVP_PKEY* old) const { EVP_PKEY_free(old); }
  };

  std::string id;         // "kid"; may be empty
  std::string algorithm;  // the one that it verifies: "RS256", "ES256" or "EdDSA"
  std::unique_ptr<EVP_PKEY, Free> key;
};

// The keys of a set that verify one of these algorithms; those of other uses and kinds are
// passed over, as RFC 7517 wants. BAD_ARGUMENT for what is no set, a key that is of such a
// kind and no key, an RSA key below 2048 bits, two keys of one id, or no key at all.
absl::StatusOr<std::vector<JsonWebKey>> ParseJsonWebKeys(absl::string_view json);

// Whether `signature`, as JSON Web Signatures have it, is of `text` by `key`. Any thread.
bool Verifies(const JsonWebKey& key, absl::string_view text, absl::string_view signature);

// Of base64url without padding, as RFC 7515 has it; none for anything else.
bool DecodeBase64Url(absl::string_view text, std::string& bytes);

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_JSON_WEB_KEY_H_
