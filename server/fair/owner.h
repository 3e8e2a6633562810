// Whose a request is: its tenant's, or, where there are no tenants, its session's or connection's own.
#ifndef KILN_SERVER_FAIR_OWNER_H_
#define KILN_SERVER_FAIR_OWNER_H_

#include <cstddef>
#include <cstdint>

#include "base/account.h"
#include "runtime/hal/module.h"
#include "server/fair/fair_queue.h"

namespace kiln::server {

inline FairOwner OwnerOf(const runtime::hal::LaunchControl& control) {
  FairOwner owner;
  if (control.account == nullptr) {
    owner.tenant = control.flow;
    return owner;
  }
  owner.tenant = reinterpret_cast<uintptr_t>(control.account);
  owner.session = control.flow;
  owner.weight = control.account->weight();
  owner.interactive = control.account->interactive();
  return owner;
}

// Whose time something is, in lists by number: nobody's is the first, and the last is of all accounts beyond the first
// Accounts::kNumbered together.
inline constexpr size_t kPayers = Accounts::kNumbered + 2;
inline size_t PayerOf(const Account* account) {
  if (account == nullptr) return 0;
  return account->number() < Accounts::kNumbered ? account->number() + 1 : kPayers - 1;
}

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_OWNER_H_
