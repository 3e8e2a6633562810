// Which callers see what of each other's.
//
// Programs, recordings and what they are kept under belong to a domain; another's does not
// exist. A domain is of a tenant, by identity and never by anything that a request says. Callers
// that the server does not know are one domain together.
#ifndef KILN_SERVER_ENGINE_MEMORY_TRUST_DOMAIN_H_
#define KILN_SERVER_ENGINE_MEMORY_TRUST_DOMAIN_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "base/account.h"
#include "base/blake3.h"

namespace kiln::server {

// All zeros: of callers that are not known.
using TrustDomain = Digest;

// Of a tenant, on servers with this secret: nobody else can say what it is.
inline TrustDomain DomainOf(absl::string_view secret, absl::string_view tenant) {
  if (tenant.empty()) return {};
  Blake3 hasher;
  hasher.Update(Blake3Of(secret).view());
  hasher.Update(Blake3Of(tenant).view());
  return hasher.Finish();
}

// Of a tenant's memory; of callers that are not known, another each time.
inline MemoryDomain NewMemoryDomain(const TrustDomain& domain) {
  if (domain == TrustDomain()) {
    static std::atomic<uint64_t> next{static_cast<uint64_t>(MemoryDomain::kFirst)};
    return MemoryDomain{next.fetch_add(1, std::memory_order_relaxed)};
  }
  uint64_t number = 0;
  std::memcpy(&number, domain.bytes.data(), sizeof(number));
  return MemoryDomain{number | uint64_t{1} << 63};  // no number of the others
}

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_MEMORY_TRUST_DOMAIN_H_
