// The address of the server in a session's token.
//
// A token is 16 bytes that nobody can guess, and then, where kilnd --advertise gives one, the address of its server.
// So another server of the same pool that gets the token, by way of a balancer, knows whose it is without asking.
#ifndef KILN_SERVER_ENGINE_SESSIONS_SERVER_ADDRESS_H_
#define KILN_SERVER_ENGINE_SESSIONS_SERVER_ADDRESS_H_

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace kiln::server {

inline constexpr size_t kSecretBytes = 16;

// A client's token may have any bytes; what of it is told back, as text, is only what may be an address.
inline bool IsServerAddress(absl::string_view address) {
  return !address.empty() && address.size() <= 255 &&
         std::all_of(address.begin(), address.end(), [](char c) { return absl::ascii_isgraph(c); });
}

// Of the server that gave the token out; empty if it names none.
inline absl::string_view ServerIn(absl::string_view token) {
  const absl::string_view address = token.substr(std::min(kSecretBytes, token.size()));
  return IsServerAddress(address) ? address : "";
}

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_SESSIONS_SERVER_ADDRESS_H_
