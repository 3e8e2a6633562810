#include "server/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/ssl.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

constexpr unsigned kLookSeconds = 1;

absl::Status BadFile(const char* field, const std::string& path, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(field);
  return MakeError(detail, absl::StrCat(field, ": ", path, " ", why));
}

// gRPC would take any files, and then refuse every connection without a word.
absl::Status CheckFiles(const v1::ServerConfig::Tls& tls) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (SSL_CTX_use_certificate_chain_file(context.get(), tls.certificate().c_str()) != 1) {
    return BadFile("tls.certificate", tls.certificate(), "is no certificate in PEM");
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), tls.key().c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return BadFile("tls.key", tls.key(), "is not the key of that certificate, in PEM and without a passphrase");
  }
  if (!tls.client_ca().empty() && SSL_CTX_load_verify_locations(context.get(), tls.client_ca().c_str(), nullptr) != 1) {
    return BadFile("tls.client_ca", tls.client_ca(), "has no certificate in PEM");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PortCredentials(const v1::ServerConfig& config) {
  const v1::ServerConfig::Tls& tls = config.tls();
  if (tls.certificate().empty()) return grpc::InsecureServerCredentials();
  KILN_RETURN_IF_ERROR(CheckFiles(tls));
  using namespace grpc::experimental;
  TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(tls.key(), tls.certificate(), tls.client_ca(), kLookSeconds));
  options.watch_identity_key_cert_pairs();
  if (!tls.client_ca().empty()) {
    options.watch_root_certs();
    // Who shows none may have a token (server/services/admission.h).
    options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return TlsServerCredentials(options);
}

}  // namespace kiln::server
