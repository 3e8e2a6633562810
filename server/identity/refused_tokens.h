// What strangers may cost by tokens that are nobody's.
//
// To find that a signature is wrong takes as long as to find that it is right, some tens of microseconds, on a thread
// that serves all. A stranger who sends tokens one after the other would have these threads to himself. So refusals are
// a budget, of each address and of all: who has used it up is refused without a look. And a token that was refused just
// now is not looked at again.
#ifndef KILN_SERVER_IDENTITY_REFUSED_TOKENS_H_
#define KILN_SERVER_IDENTITY_REFUSED_TOKENS_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/identity/tenants.h"

namespace kiln::server {

// Not safe from several threads at once. `now` is of SteadyNow().
class RefusedTokens {
 public:
  // A second's, and so many may come at once: at most a fifth of a core. Where all is used up, one is looked at of an
  // address of which none was refused for a second, and kOfQuiet of such: whoever floods the port from few addresses
  // locks nobody else out.
  static constexpr double kOfAll = 2000, kOfAddress = 500, kOfQuiet = 500;
  // A token that is not valid yet may be soon.
  static constexpr absl::Duration kRemembered = absl::Seconds(1);
  static constexpr size_t kMostTokens = 4096, kMostAddresses = 4096;

  // OK if the token is to be looked at; else NOT_AUTHENTICATED: what it was refused for, or that too many were, with
  // the time to wait. `peer` is as gRPC names it; an IPv6 network of 64 bits is one address; callers of a Unix socket
  // or of another kind, behind which a proxy may have everybody, count among all alone.
  absl::Status Check(const Sha256& token, absl::string_view peer, absl::Time now);
  // It was looked at, and refused.
  void Note(const Sha256& token, absl::string_view peer, absl::Status why, absl::Time now);
  // Other keys are in force.
  void Forget() { tokens_.clear(); }

 private:
  // Fills up evenly, to one second's part.
  struct Budget {
    double left = 0;
    absl::Time at;
    absl::Time refused = absl::InfinitePast();  // when one was, last
  };
  struct Refused {
    absl::Status why;
    absl::Time until;
  };

  static void Fill(Budget& budget, double a_second, absl::Time now);
  // Null: the caller has none of its own, or there are too many.
  Budget* OfAddress(absl::string_view peer, absl::Time now);

  Budget all_ = {kOfAll, absl::InfinitePast()}, quiet_ = {kOfQuiet, absl::InfinitePast()};
  absl::Time swept_ = absl::InfinitePast();  // of addresses that are quiet
  absl::flat_hash_map<std::string, Budget> addresses_;
  absl::flat_hash_map<Sha256, Refused> tokens_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_REFUSED_TOKENS_H_
