// Where an issuer's keys come from: a file, or a server that is asked again and again. Tested by tenants_test, and
// with a server of keys by tests/python/server/identity_test.py.
#ifndef KILN_SERVER_IDENTITY_KEY_SOURCE_H_
#define KILN_SERVER_IDENTITY_KEY_SOURCE_H_

#include <compare>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kiln::server {

struct KeySource {
  std::string file;  // or
  std::string url;
  // With a URL. Empty: the machine's own roots; no token.
  std::string ca_file;
  std::string token_file;

  auto operator<=>(const KeySource&) const = default;

  // All files that it reads.
  std::vector<std::string> files() const;
};

// No key set is longer.
inline constexpr size_t kMaxKeySetBytes = size_t{1} << 20;
// A server of keys that has not answered by then does not answer.
inline constexpr absl::Duration kKeyTimeout = absl::Seconds(10);

// What a file has in it. BAD_ARGUMENT with the field "tenants" if it cannot be read.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// BAD_ARGUMENT if `url` is neither https nor, on this very machine, http.
absl::Status CheckKeyUrl(const std::string& url);

// The text of the key set. Blocks for kKeyTimeout at most. BAD_ARGUMENT with the field "tenants" for a file that cannot
// be read, and a server that does not answer 200, with so many bytes at most, from where it was asked: redirections are
// not followed.
absl::StatusOr<std::string> ReadKeys(const KeySource& source);

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_KEY_SOURCE_H_
