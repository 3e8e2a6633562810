#include "server/identity/tenants.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "kiln/v1/tenants.pb.h"
#include "server/identity/unix_user.h"

namespace kiln::server {
namespace {

constexpr size_t kMaxName = 63;
constexpr uint32_t kMaxLeeway = 600;
constexpr uint32_t kMaxWeight = 10'000;
// Seconds between two questions to a server of keys.
constexpr uint32_t kRefresh = 300, kMinRefresh = 10, kMaxRefresh = 86400;

absl::Status BadTenants(absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("tenants");
  return MakeError(detail, absl::StrCat("tenants: ", message));
}

// Keeps the first fault and its place.
class FirstFault : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) text = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  std::string text;
};

bool IsName(absl::string_view name) {
  const auto letter = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  return !name.empty() && name.size() <= kMaxName && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || c == '.' || c == '_' || c == '-'; });
}

// A part of it at most: errors go to the log, as one line.
std::string Quoted(absl::string_view text) {
  constexpr size_t kMostShown = 256;
  return absl::StrCat("\"", absl::CEscape(text.substr(0, kMostShown)), text.size() > kMostShown ? "...\"" : "\"");
}

QuotaLimits LimitsOf(const v1::Quota& quota) {
  return {
#define HELD(Name, field, retry_ms, advice) quota.field(),
#define RATE(Name, field, window, advice) quota.field(),
#define EACH(Name, field, advice) quota.field(),
#include "base/quotas.def"
#undef HELD
#undef RATE
#undef EACH
  };
}

}  // namespace

Sha256 Sha256Of(absl::string_view bytes) {
  // Not OpenSSL 3's SHA256(), nor EVP_Digest(): they look for an implementation each time, which takes several times as
  // long as a token's digest does.
  Sha256 digest;
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  SHA256_Final(digest.data(), &context);
  return digest;
}

absl::string_view BearerToken(absl::string_view authorization) {
  constexpr absl::string_view kScheme = "Bearer ";
  return absl::StartsWithIgnoreCase(authorization, kScheme) ? authorization.substr(kScheme.size()) : "";
}

class Tenants::Builder {
 public:
  Builder(const v1::Tenants& file, const ReadKeysFn& read, WithoutKeys without_keys)
      : file_(file), read_(read), without_keys_(without_keys) {}

  absl::StatusOr<Tenants> Build() && {
    for (const v1::Issuer& issuer : file_.issuer()) KILN_RETURN_IF_ERROR(AddIssuer(issuer));
    for (const v1::Tenant& tenant : file_.tenant()) {
      if (absl::Status added = AddTenant(tenant); !added.ok()) {
        return BadTenants(absl::StrCat("tenant ", Quoted(tenant.name()), ": ", added.message()));
      }
    }
    if (made_.tenants_.empty()) return BadTenants("there is none, so nobody could use this server");
    Sort(made_.certificates_);
    for (auto& [issuer, patterns] : made_.subjects_) Sort(patterns);
    return std::move(made_);
  }

 private:
  absl::Status AddIssuer(const v1::Issuer& issuer) {
    const auto bad = [&issuer](absl::string_view what) {
      return BadTenants(absl::StrCat("issuer ", Quoted(issuer.name()), ": ", what));
    };
    if (issuer.name().empty()) return bad("it has no name");
    if (issuer.audience().empty()) return bad("it has no audience: any of its tokens would count, whoever it is for");
    if (issuer.leeway_seconds() > kMaxLeeway) {
      return bad(absl::StrCat("leeway_seconds is ", issuer.leeway_seconds(), "; at most ", kMaxLeeway));
    }
    const auto same = [&issuer](const TokenIssuer& other) { return other.name == issuer.name(); };
    if (std::any_of(made_.issuers_.begin(), made_.issuers_.end(), same)) return bad("it is there twice");
    const KeySource source{issuer.jwks_file(), issuer.jwks_url(), issuer.jwks_ca_file(), issuer.jwks_token_file()};
    if (source.file.empty() == source.url.empty()) return bad("it has either a jwks_file or a jwks_url");
    const bool asks = !source.url.empty();
    if (!asks && (!source.ca_file.empty() || !source.token_file.empty() || issuer.jwks_refresh_seconds() != 0))
      return bad("jwks_ca_file, jwks_token_file and jwks_refresh_seconds go with a jwks_url");
    const uint32_t refresh = issuer.jwks_refresh_seconds() == 0 ? kRefresh : issuer.jwks_refresh_seconds();
    if (refresh < kMinRefresh || refresh > kMaxRefresh) {
      return bad(absl::StrCat("jwks_refresh_seconds is ", refresh, "; from ", kMinRefresh, " to ", kMaxRefresh));
    }
    // No server of keys has to be asked to know that.
    if (absl::Status url = asks ? CheckKeyUrl(source.url) : absl::OkStatus(); !url.ok()) return bad(url.message());
    std::vector<JsonWebKey> keys;
    if (const auto text = read_(source); text.ok()) {
      auto parsed = ParseJsonWebKeys(*text);
      if (!parsed.ok()) return bad(absl::StrCat(asks ? source.url : source.file, ": ", parsed.status().message()));
      keys = *std::move(parsed);
    } else if (!asks || without_keys_ == WithoutKeys::kIsAFault) {
      return bad(text.status().message());
    }
    for (std::string& file : source.files()) made_.files_.push_back(std::move(file));
    if (asks) {
      made_.refresh_ = std::min(made_.refresh_, absl::Seconds(refresh));
      made_.sources_.push_back(source);
    }
    made_.issuers_.push_back(
        {issuer.name(), issuer.audience(), std::move(keys), absl::Seconds(issuer.leeway_seconds())});
    return absl::OkStatus();
  }

  absl::Status AddTenant(const v1::Tenant& message) {
    if (!IsName(message.name())) {
      return BadTenants(
          "a name has at most 63 letters, digits, '.', '_' and '-', of which the first is a letter or a digit");
    }
    const auto same = [&message](const TenantPtr& other) { return other->name == message.name(); };
    if (std::any_of(made_.tenants_.begin(), made_.tenants_.end(), same)) return BadTenants("it is there twice");
    auto tenant = std::make_shared<Tenant>();
    tenant->name = message.name();
    KILN_RETURN_IF_ERROR(AddRights(message, *tenant));
    v1::Quota quota = file_.default_quota();
    quota.MergeFrom(message.quota());  // what is not 0
    tenant->quota = LimitsOf(quota);
    if (!v1::Isolation_IsValid(message.isolation())) return BadTenants("isolation is SHARED or PROCESS");
    tenant->apart = message.isolation() == v1::PROCESS;
    for (const std::string& device : message.device()) {
      if (device.empty())
        return BadTenants("a device is empty; it is a name, such as \"CUDA:0\", or a beginning and '*'");
      tenant->devices.push_back(device);
    }
    for (const std::string& model : message.model()) {
      if (model.empty()) return BadTenants("a model is empty; it is a name, such as \"bert\", or a beginning and '*'");
      tenant->models.push_back(model);
    }
    tenant->guaranteed_device_bytes = message.guaranteed_device_bytes();
    if (tenant->apart && tenant->guaranteed_device_bytes != 0) {
      return BadTenants(
          "guaranteed_device_bytes is of the server's devices, and with isolation: PROCESS it has devices of its own");
    }
    KILN_RETURN_IF_ERROR(AddSharing(message, *tenant));
    KILN_RETURN_IF_ERROR(SetShare(message, *tenant));
    if (message.token().empty() && message.certificate().empty() && message.jwt().empty() &&
        message.unix_user().empty()) {
      return BadTenants("it has no token, certificate, jwt or unix_user: nobody could be it");
    }
    for (const v1::Tenant::Token& token : message.token()) KILN_RETURN_IF_ERROR(AddToken(token, tenant));
    for (const std::string& name : message.certificate()) {
      KILN_RETURN_IF_ERROR(AddPattern("certificate", name, tenant, made_.certificates_));
    }
    for (const std::string& user : message.unix_user()) KILN_RETURN_IF_ERROR(AddUser(user, tenant));
    for (const v1::Tenant::Subject& subject : message.jwt()) {
      const auto its = [&subject](const TokenIssuer& issuer) { return issuer.name == subject.issuer(); };
      if (std::none_of(made_.issuers_.begin(), made_.issuers_.end(), its)) {
        return BadTenants(absl::StrCat("jwt names the issuer ", Quoted(subject.issuer()), ", which the file has not"));
      }
      KILN_RETURN_IF_ERROR(AddPattern("jwt subject", subject.subject(), tenant, made_.subjects_[subject.issuer()]));
    }
    made_.tenants_.push_back(std::move(tenant));
    return absl::OkStatus();
  }

  absl::Status AddSharing(const v1::Tenant& message, Tenant& tenant) const {
    switch (file_.cache_sharing()) {
      case v1::SHARE_NOTHING: break;
      case v1::SHARE_HIDDEN: tenant.cache_sharing = CacheSharing::kHidden; break;
      case v1::SHARE_IN_GROUP: tenant.cache_sharing = CacheSharing::kGroup; break;
      case v1::SHARE_WITH_ALL: tenant.cache_sharing = CacheSharing::kAll; break;
      default: return BadTenants("cache_sharing is SHARE_NOTHING, SHARE_HIDDEN, SHARE_IN_GROUP or SHARE_WITH_ALL");
    }
    tenant.sharing_group = message.sharing_group();
    if (tenant.sharing_group.empty()) return absl::OkStatus();
    if (tenant.cache_sharing != CacheSharing::kGroup)
      return BadTenants("a sharing_group goes with cache_sharing: SHARE_IN_GROUP, which the file has not");
    if (!IsName(tenant.sharing_group)) return BadTenants("a sharing_group is a name as a tenant's");
    return absl::OkStatus();
  }

  static absl::Status AddRights(const v1::Tenant& message, Tenant& tenant) {
    if (message.right().empty()) {
      tenant.rights[static_cast<int>(Right::kExecute)] = tenant.rights[static_cast<int>(Right::kDebug)] = true;
    }
    for (const int right : message.right()) {
      switch (right) {
        case v1::EXECUTE_RIGHT: tenant.rights[static_cast<int>(Right::kExecute)] = true; break;
        case v1::DEBUG_RIGHT: tenant.rights[static_cast<int>(Right::kDebug)] = true; break;
        case v1::ADMIN_RIGHT: tenant.rights[static_cast<int>(Right::kAdmin)] = true; break;
        default: return BadTenants("a right is EXECUTE_RIGHT, DEBUG_RIGHT or ADMIN_RIGHT");
      }
    }
    return absl::OkStatus();
  }

  static absl::Status SetShare(const v1::Tenant& message, Tenant& tenant) {
    if (message.weight() > kMaxWeight) {
      return BadTenants(absl::StrCat("weight is ", message.weight(), "; at most ", kMaxWeight));
    }
    if (!v1::Tenant::Class_IsValid(message.class_())) return BadTenants("class is NORMAL or INTERACTIVE");
    tenant.weight = std::max(message.weight(), 1u);
    tenant.interactive = message.class_() == v1::Tenant::INTERACTIVE;
    return absl::OkStatus();
  }

  absl::Status AddToken(const v1::Tenant::Token& message, const TenantPtr& tenant) {
    const std::string& hex = message.sha256();
    if (hex.size() != 64 || !std::all_of(hex.begin(), hex.end(), absl::ascii_isxdigit)) {
      return BadTenants(
          absl::StrCat("a token's sha256 is 64 hexadecimal digits, as `printf %s SECRET | sha256sum` "
                       "gives them; one here has ",
                       hex.size()));
    }
    Identified token{tenant, absl::InfiniteFuture()};
    std::string fault;
    if (!message.expires().empty() && !absl::ParseTime(absl::RFC3339_full, message.expires(), &token.until, &fault)) {
      return BadTenants(
          absl::StrCat("expires: ", Quoted(message.expires()), " is no time such as 2027-01-31T00:00:00Z"));
    }
    const std::string bytes = absl::HexStringToBytes(hex);
    Sha256 digest;
    std::memcpy(digest.data(), bytes.data(), digest.size());
    if (!made_.tokens_.emplace(digest, std::move(token)).second)
      return BadTenants("a token is there twice in the file");
    return absl::OkStatus();
  }

  absl::Status AddUser(const std::string& user, const TenantPtr& tenant) {
    const auto number = ParseUnixUser(user);
    if (!number.ok()) return BadTenants(number.status().message());
    const auto [row, added] = made_.unix_users_.emplace(*number, tenant);
    if (added) return absl::OkStatus();
    return BadTenants(absl::StrCat("the unix_user ", Quoted(user), " is ", Quoted(row->second->name), "'s already"));
  }

  static absl::Status AddPattern(absl::string_view what, const std::string& pattern, const TenantPtr& tenant,
                                 Patterns& patterns) {
    if (pattern.empty()) return BadTenants(absl::StrCat("a ", what, " is empty"));
    for (const auto& [other, its] : patterns) {
      if (other == pattern) {
        return BadTenants(absl::StrCat("the ", what, " ", Quoted(pattern), " is ", Quoted(its->name), "'s already"));
      }
    }
    patterns.emplace_back(pattern, tenant);
    return absl::OkStatus();
  }

  // Whole names before beginnings, and long ones before short ones.
  static void Sort(Patterns& patterns) {
    const auto rank = [](const std::string& pattern) {
      return std::make_pair(absl::EndsWith(pattern, "*") ? 1 : 0, ~pattern.size());
    };
    std::sort(patterns.begin(), patterns.end(),
              [&rank](const auto& a, const auto& b) { return rank(a.first) < rank(b.first); });
  }

  const v1::Tenants& file_;
  const ReadKeysFn& read_;
  const WithoutKeys without_keys_;
  Tenants made_;
};

absl::StatusOr<Tenants> Tenants::Parse(absl::string_view text, const ReadKeysFn& read, WithoutKeys without_keys) {
  FirstFault fault;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&fault);
  v1::Tenants file;
  if (!parser.ParseFromString(std::string(text), &file)) return BadTenants(fault.text);
  return Builder(file, read, without_keys).Build();
}

TenantPtr Tenants::Find(const Patterns& patterns, absl::string_view text) {
  const auto found =
      std::find_if(patterns.begin(), patterns.end(), [text](const auto& row) { return Matches(row.first, text); });
  return found == patterns.end() ? nullptr : found->second;
}

absl::StatusOr<Identified> Tenants::OfToken(absl::string_view token, absl::Time now) const {
  const Sha256 digest = Sha256Of(token);
  // What the time of a look-up tells is about the digest, which says nothing of the secret.
  if (const auto found = tokens_.find(digest);
      found != tokens_.end() && CRYPTO_memcmp(found->first.data(), digest.data(), digest.size()) == 0) {
    if (now < found->second.until) return found->second;
    return NotAuthenticated(
        absl::StrCat("the token expired at ", absl::FormatTime(found->second.until, absl::UTCTimeZone())));
  }
  if (issuers_.empty() || !LooksLikeJwt(token)) return NotAuthenticated("the token is none of this server's");
  KILN_ASSIGN_OR_RETURN(const TokenClaims claims, CheckJwt(token, issuers_, now));
  const auto subjects = subjects_.find(claims.issuer);
  TenantPtr tenant = subjects == subjects_.end() ? nullptr : Find(subjects->second, claims.subject);
  if (tenant != nullptr) return Identified{std::move(tenant), claims.expires};
  return NotAuthenticated(absl::StrCat("the token's subject, ", Quoted(claims.subject), ", is no tenant's"));
}

absl::StatusOr<Identified> Tenants::Identify(const Credentials& credentials, absl::Time now) const {
  if (!credentials.authorization.empty()) {
    const absl::string_view token = BearerToken(credentials.authorization);
    if (token.empty()) return NotAuthenticated("authorization is \"Bearer TOKEN\"");
    return OfToken(token, now);
  }
  for (const absl::string_view name : credentials.certificate_names) {
    if (TenantPtr tenant = Find(certificates_, name); tenant != nullptr) {
      return Identified{std::move(tenant), absl::InfiniteFuture()};
    }
  }
  if (credentials.unix_user.has_value()) {
    const auto found = unix_users_.find(*credentials.unix_user);
    if (found != unix_users_.end()) return Identified{found->second, absl::InfiniteFuture()};
    return NotAuthenticated(absl::StrCat("no tenant has the user ", *credentials.unix_user, " of this machine"));
  }
  return NotAuthenticated(
      credentials.certificate_names.empty()
          ? "this server wants to know who asks: send a token, or a certificate of its clients' CA"
          : absl::StrCat("no tenant has the certificate's name, ", Quoted(credentials.certificate_names[0])));
}

}  // namespace kiln::server
