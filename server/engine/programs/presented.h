// Which code each domain has shown that it knows the graph of, by having sent it in full: where code is shared, others
// do not exist for it.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_PRESENTED_H_
#define KILN_SERVER_ENGINE_PROGRAMS_PRESENTED_H_

#include <cstddef>
#include <deque>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "base/digest.h"
#include "server/engine/memory/trust_domain.h"

namespace kiln::server {

// Safe from any thread.
class Presented {
 public:
  // Of one domain, at most; then the oldest is forgotten, and its graph asked for again.
  static constexpr size_t kMaxEach = 1 << 14;

  void Add(const TrustDomain& domain, const Digest& code) {
    absl::MutexLock lock(&mutex_);
    Of& of = domains_[domain];
    if (!of.codes.insert(code).second) return;
    of.order.push_back(code);
    if (of.order.size() <= kMaxEach) return;
    of.codes.erase(of.order.front());
    of.order.pop_front();
  }

  bool Has(const TrustDomain& domain, const Digest& code) const {
    absl::MutexLock lock(&mutex_);
    const auto found = domains_.find(domain);
    return found != domains_.end() && found->second.codes.contains(code);
  }

  void Forget(const TrustDomain& domain) {
    absl::MutexLock lock(&mutex_);
    domains_.erase(domain);
  }

 private:
  struct Of {
    absl::flat_hash_set<Digest> codes;
    std::deque<Digest> order;  // the oldest first
  };
  mutable absl::Mutex mutex_;
  std::map<TrustDomain, Of> domains_ ABSL_GUARDED_BY(mutex_);  // as many as tenants
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_PRESENTED_H_
