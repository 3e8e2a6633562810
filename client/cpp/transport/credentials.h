// How a client says who it is, and how it knows the server: TLS, certificates, tokens.
#ifndef KILN_CLIENT_CPP_TRANSPORT_CREDENTIALS_H_
#define KILN_CLIENT_CPP_TRANSPORT_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace kiln::client {

// Empty: not used. Files are PEM.
struct CredentialOptions {
  // Those who sign servers' certificates; "system" for the machine's own. With it, the
  // connection is encrypted and the server's name checked.
  std::string tls_ca;
  // Of this client, for servers that know their clients so; both or none.
  std::string tls_certificate;
  std::string tls_key;
  // Sent with every call. A file is read again when it changes, and goes before a token.
  std::string token;
  std::string token_file;
  // A token may be sent without encryption to another machine, where something else encrypts.
  bool insecure = false;

  // KILN_TLS_CA, KILN_TLS_CERTIFICATE, KILN_TLS_KEY, KILN_TOKEN, KILN_TOKEN_FILE.
  static CredentialOptions FromEnvironment();
};

// INVALID_ARGUMENT, saying what to do, for options that do not go together, files that cannot be
// read, and a token that others could read on its way to `target`.
absl::Status CheckCredentials(const CredentialOptions& options, const std::string& target);

// Whether what is sent to `target` stays on this machine, as it is written: what a name resolves to is
// the network's business.
bool StaysHere(absl::string_view target);

// Whether a client may go to an address that a server has told it: one of host:port, and none where the token would be
// read on its way. That something else encrypts holds for the way that the user has chosen, and for no other.
bool MayFollow(const CredentialOptions& options, absl::string_view address);

// What a channel is opened with. The options have been checked.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const CredentialOptions& options);

// The value of "authorization", as it is now; empty: none. Safe from any thread.
class BearerSource {
 public:
  explicit BearerSource(const CredentialOptions& options);
  std::string Value();
  // The same, of a file that is read now: for who was refused the value before.
  std::string Newest();

 private:
  // How long a file is believed unchanged.
  static constexpr absl::Duration kBelieved = absl::Seconds(1);

  const std::string file_;
  absl::Mutex mutex_;
  std::string value_ ABSL_GUARDED_BY(mutex_);
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_CREDENTIALS_H_
