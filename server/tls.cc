#include "server/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/error.h"

namespace kiln::server {
namespace {

constexpr absl::Duration kLook = absl::Seconds(1);

// What the files hold.
struct Pem {
  std::string certificate, key, client_ca;
};

// Empty if it cannot be read, which is no certificate either.
std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::Status BadFile(const char* field, const std::string& path, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(field);
  return MakeError(detail, absl::StrCat(field, ": ", path, " ", why));
}

template <typename T, void (*free)(T*)>
struct Free {
  void operator()(T* value) const { free(value); }
};
using Certificate = std::unique_ptr<X509, Free<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX, SSL_CTX_free>>;
using Bytes = std::unique_ptr<BIO, Free<BIO, BIO_free_all>>;

// To gRPC a text ends at its first zero.
Bytes Reader(const std::string& text) { return Bytes(BIO_new_mem_buf(text.c_str(), -1)); }

// In place of asking for a passphrase at the terminal.
char kNoPassphrase[] = "";

// Whether the text has a certificate, and all that it has are whole; `each` is given one after the other, and owns
// none.
template <typename Each>
bool ReadCertificates(const std::string& text, Each each) {
  const Bytes reader = Reader(text);
  Certificate one(PEM_read_bio_X509_AUX(reader.get(), nullptr, nullptr, kNoPassphrase));
  if (one == nullptr) return false;
  for (; one != nullptr; one.reset(PEM_read_bio_X509(reader.get(), nullptr, nullptr, kNoPassphrase))) {
    if (!each(one.get())) return false;
  }
  const bool whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return whole;
}

// As gRPC will read them; what it cannot use, it leaves without saying so to us.
absl::Status Check(const v1::ServerConfig::Tls& files, const Pem& pem) {
  const Context context(SSL_CTX_new(TLS_server_method()));
  bool first = true;
  const auto use = [&](X509* certificate) {
    if (std::exchange(first, false)) return SSL_CTX_use_certificate(context.get(), certificate) == 1;
    return SSL_CTX_add1_chain_cert(context.get(), certificate) == 1;
  };
  if (!ReadCertificates(pem.certificate, use)) {
    return BadFile("tls.certificate", files.certificate(), "is no certificate in PEM");
  }
  const Key key(PEM_read_bio_PrivateKey(Reader(pem.key).get(), nullptr, nullptr, kNoPassphrase));
  if (key == nullptr || SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return BadFile("tls.key", files.key(), "is not the key of that certificate, in PEM and without a passphrase");
  }
  if (!files.client_ca().empty() && !ReadCertificates(pem.client_ca, [](X509*) { return true; })) {
    return BadFile("tls.client_ca", files.client_ca(), "has no certificate in PEM");
  }
  return absl::OkStatus();
}

// Of the C interface, which alone lets gRPC ask for certificates. Owns what it is given.
class SslCredentials final : public grpc::ServerCredentials {
 public:
  explicit SslCredentials(grpc_server_credentials* credentials) : credentials_(credentials) {}
  ~SslCredentials() override { grpc_server_credentials_release(credentials_); }
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    KILN_CHECK(false);  // server/services/admission.h looks at metadata
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

// What connections begin with from now on. Threads: any.
class PortTls::InForce {
 public:
  void Set(Pem pem) {
    absl::MutexLock lock(&mutex_);
    pem_ = std::move(pem);
    taken_ = false;
  }

  // gRPC's question, as a connection begins; gRPC owns what it is given, and asks for one port after the other.
  static grpc_ssl_certificate_config_reload_status Ask(void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<InForce*>(self)->Give(config);
  }

 private:
  grpc_ssl_certificate_config_reload_status Give(grpc_ssl_server_certificate_config** config) {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(taken_, true)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {pem_.key.c_str(), pem_.certificate.c_str()};
    // gRPC 1.51 wants some that sign clients' even where it asks clients for none.
    const std::string& signers = pem_.client_ca.empty() ? pem_.certificate : pem_.client_ca;
    *config = grpc_ssl_server_certificate_config_create(signers.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  absl::Mutex mutex_;
  Pem pem_ ABSL_GUARDED_BY(mutex_);
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;  // gRPC has it
};

absl::StatusOr<std::unique_ptr<PortTls>> PortTls::Open(const v1::ServerConfig& config,
                                                       std::shared_ptr<spdlog::logger> log) {
  const v1::ServerConfig::Tls& tls = config.tls();
  std::unique_ptr<PortTls> self(new PortTls(tls, std::move(log)));
  if (tls.certificate().empty()) {
    self->credentials_ = grpc::InsecureServerCredentials();
    return self;
  }
  KILN_RETURN_IF_ERROR(self->Take());
  // Who shows no certificate may have a token (server/services/admission.h).
  const auto request = tls.client_ca().empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                               : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
  self->credentials_ = std::make_shared<SslCredentials>(grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(request, InForce::Ask, self->in_force_.get())));
  self->thread_ = std::thread([tls = self.get()] { tls->LookUntilStopped(); });
  return self;
}

PortTls::PortTls(const v1::ServerConfig::Tls& files, std::shared_ptr<spdlog::logger> log)
    : files_(files), log_(std::move(log)), in_force_(std::make_unique<InForce>()) {}

PortTls::~PortTls() {
  bell_.Ring();
  if (thread_.joinable()) thread_.join();
}

absl::Status PortTls::Take() {
  Pem pem = {Contents(files_.certificate()), Contents(files_.key()),
             files_.client_ca().empty() ? "" : Contents(files_.client_ca())};
  std::string all = absl::StrCat(pem.certificate, "\n", pem.key, "\n", pem.client_ca);
  if (all == seen_) return absl::OkStatus();
  const bool first = seen_.empty();
  seen_ = std::move(all);
  KILN_RETURN_IF_ERROR(Check(files_, pem));
  in_force_->Set(std::move(pem));
  if (!first) log_->info("event=tls certificate=\"{}\" reloaded=true", absl::CEscape(files_.certificate()));
  return absl::OkStatus();
}

void PortTls::LookUntilStopped() {
  while (!bell_.Wait(kLook)) {
    if (absl::Status taken = Take(); !taken.ok())
      log_->error("event=tls_refused reason=\"{}\" in_force=\"as before\"", absl::CEscape(taken.message()));
  }
}

}  // namespace kiln::server
