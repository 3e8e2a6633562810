// A far-away server: a TCP proxy on loopback that hands everything on a while later, and
// breaks when a test wants it to.
#ifndef KILN_TESTS_SUPPORT_DELAYING_PROXY_H_
#define KILN_TESTS_SUPPORT_DELAYING_PROXY_H_

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace kiln::testing {

// Serves from its making to its end. What is on the way does not wait for what is before
// it: the delay is a distance, not a rate.
class DelayingProxy {
 public:
  // To a port of loopback; each direction takes `delay`.
  DelayingProxy(int port, absl::Duration delay);
  ~DelayingProxy();
  DelayingProxy(const DelayingProxy&) = delete;
  DelayingProxy& operator=(const DelayingProxy&) = delete;

  std::string address() const;

  // Breaks all connections; what is on the way is lost.
  void Cut();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_DELAYING_PROXY_H_
