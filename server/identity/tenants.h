// Which credentials are whose: the file of tenants (proto/kiln/v1/tenants.proto), read.
//
// A value that never changes. A file that is read again makes another, and is refused as a
// whole if one line of it is wrong.
#ifndef KILN_SERVER_IDENTITY_TENANTS_H_
#define KILN_SERVER_IDENTITY_TENANTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/identity/json_web_token.h"
#include "server/identity/key_sets.h"
#include "server/identity/key_source.h"
#include "server/identity/tenant.h"

namespace kiln::server {

using Sha256 = std::array<uint8_t, 32>;
Sha256 Sha256Of(absl::string_view bytes);

// The token of an "authorization: Bearer TOKEN"; empty for any other.
absl::string_view BearerToken(absl::string_view authorization);

// What a caller has brought. Empty strings: not brought.
struct Credentials {
  absl::string_view authorization;  // the metadata's
  // Of a certificate that TLS has verified.
  std::vector<absl::string_view> certificate_names;
  // At the other end of a Unix socket.
  std::optional<uint32_t> unix_user = std::nullopt;
};

struct Identified {
  TenantPtr tenant;
  absl::Time until;  // the credentials count
};

class Tenants {
 public:
  using ReadKeysFn = KeySets::ReadKeysFn;

  // What an issuer whose keys do not come by its URL is: a fault of the file, or an issuer of which no token counts.
  enum class WithoutKeys : unsigned char { kIsAFault, kHasNoTokens };

  // `text` is a kiln.v1.Tenants in text format. BAD_ARGUMENT with the field "tenants" that
  // says where the first fault is.
  static absl::StatusOr<Tenants> Parse(absl::string_view text, const ReadKeysFn& read,
                                       WithoutKeys without_keys = WithoutKeys::kIsAFault);

  // NOT_AUTHENTICATED if nobody is known by these, or nothing was brought. A bearer token
  // goes before a certificate or a user: one that is wrong is refused, whatever else there is.
  absl::StatusOr<Identified> Identify(const Credentials& credentials, absl::Time now) const;

  // Whether a tenant has this user of the machine.
  bool HasUnixUser(uint32_t user) const { return unix_users_.contains(user); }

  size_t size() const { return tenants_.size(); }
  const std::vector<TenantPtr>& all() const { return tenants_; }
  // Files that the text names.
  const std::vector<std::string>& files() const { return files_; }
  // Where keys come from by a URL.
  const std::vector<KeySource>& sources() const { return sources_; }
  // After so long, keys that were had by a URL are to be asked for again.
  absl::Duration refresh() const { return refresh_; }

 private:
  // Credentials by pattern, those that say most first.
  using Patterns = std::vector<std::pair<std::string, TenantPtr>>;

  class Builder;

  absl::StatusOr<Identified> OfToken(absl::string_view token, absl::Time now) const;
  // Null if there is none.
  static TenantPtr Find(const Patterns& patterns, absl::string_view text);

  std::vector<TenantPtr> tenants_;
  absl::flat_hash_map<Sha256, Identified> tokens_;
  Patterns certificates_;
  absl::flat_hash_map<uint32_t, TenantPtr> unix_users_;
  std::vector<TokenIssuer> issuers_;
  absl::flat_hash_map<std::string, Patterns> subjects_;  // by issuer
  std::vector<std::string> files_;
  std::vector<KeySource> sources_;
  absl::Duration refresh_ = absl::InfiniteDuration();
};

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_TENANTS_H_
