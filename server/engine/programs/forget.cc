// ProgramStore: what is taken from memory and disk because somebody wants it gone.
//
// Tested by tests/e2e/evict_test.cc and tests/e2e/tenants/gone_test.cc.
#include "server/engine/programs/program_store.h"

namespace kiln::server {

ProgramStore::Evicted ProgramStore::Evict(const TrustDomain& domain, const Digest& graph_hash) {
  Evicted evicted;
  for (const auto& [key, program] : cache_.List()) {
    if (program->domain == domain && program->graph_hash == graph_hash) evicted.programs += cache_.Erase(key) ? 1 : 0;
  }
  for (const auto& [key, code] : codes_.List()) {
    if (code->graph_hash == graph_hash && code->domain == domain) codes_.Erase(key);
  }
  if (disk_ != nullptr) evicted.entries = disk_->Evict(domain, graph_hash);
  return evicted;
}

void ProgramStore::Forget(const TrustDomain& domain) {
  {
    absl::MutexLock lock(&forgotten_mutex_);
    forgotten_.insert(domain);
  }
  for (const auto& [key, program] : cache_.List()) {
    if (program->domain == domain) cache_.Erase(key);
  }
  for (const auto& [key, code] : codes_.List()) {
    if (code->domain == domain) codes_.Erase(key);
  }
  presented_.Forget(domain);
  if (disk_ != nullptr) disk_->Forget(domain);
}

}  // namespace kiln::server
