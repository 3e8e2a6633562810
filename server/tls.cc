#include "server/tls.h"

#include <fcntl.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
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

std::string PathOf(int file) { return absl::StrCat("/proc/self/fd/", file); }

// Empty if it cannot be read, which is no certificate either.
std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::Status Check(const v1::ServerConfig::Tls& tls, const std::string& pair) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (SSL_CTX_use_certificate_chain_file(context.get(), pair.c_str()) != 1) {
    return BadFile("tls.certificate", tls.certificate(), "is no certificate in PEM");
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), pair.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return BadFile("tls.key", tls.key(), "is not the key of that certificate, in PEM and without a passphrase");
  }
  if (!tls.client_ca().empty() && SSL_CTX_load_verify_locations(context.get(), tls.client_ca().c_str(), nullptr) != 1) {
    return BadFile("tls.client_ca", tls.client_ca(), "has no certificate in PEM");
  }
  return absl::OkStatus();
}

// Of these bytes; -1 if the system gives no memory.
int FileInMemory(const std::string& bytes) {
  const int file = memfd_create("kiln-tls", MFD_CLOEXEC);
  if (file < 0) return file;
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written = write(file, bytes.data() + at, bytes.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      close(file);
      return -1;
    }
    at += static_cast<size_t>(written);
  }
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PortTls>> PortTls::Open(const v1::ServerConfig& config,
                                                       std::shared_ptr<spdlog::logger> log) {
  const v1::ServerConfig::Tls& tls = config.tls();
  std::unique_ptr<PortTls> self(new PortTls(tls, std::move(log)));
  if (tls.certificate().empty()) {
    self->credentials_ = grpc::InsecureServerCredentials();
    return self;
  }
  KILN_RETURN_IF_ERROR(self->Take());
  using namespace grpc::experimental;
  const std::string pair = PathOf(self->pair_);
  TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(pair, pair, tls.client_ca(), kLookSeconds));
  options.watch_identity_key_cert_pairs();
  if (!tls.client_ca().empty()) {
    options.watch_root_certs();
    // Who shows none may have a token (server/services/admission.h).
    options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  self->credentials_ = TlsServerCredentials(options);
  self->thread_ = std::thread([tls = self.get()] { tls->LookUntilStopped(); });
  return self;
}

PortTls::PortTls(const v1::ServerConfig::Tls& files, std::shared_ptr<spdlog::logger> log)
    : files_(files), log_(std::move(log)) {}

PortTls::~PortTls() {
  bell_.Ring();
  if (thread_.joinable()) thread_.join();
  credentials_ = nullptr;
  if (pair_ >= 0) close(pair_);
}

// The descriptor stays, and with it the path that gRPC has; what is behind it changes at once.
absl::Status PortTls::Take() {
  std::string pair = absl::StrCat(Contents(files_.key()), "\n", Contents(files_.certificate()));
  if (pair == seen_) return absl::OkStatus();
  const int file = FileInMemory(pair);
  if (file < 0) return absl::UnavailableError(absl::StrCat("memfd_create: ", std::strerror(errno)));
  seen_ = pair;
  absl::Status good = Check(files_, PathOf(file));
  if (good.ok() && pair_ < 0) {
    pair_ = file;
    return good;
  }
  if (good.ok()) {
    if (dup3(file, pair_, O_CLOEXEC) < 0) {
      const int error = errno;
      close(file);
      seen_.clear();  // so that it is tried again
      return absl::UnavailableError(absl::StrCat("dup3: ", std::strerror(error)));
    }
    log_->info("event=tls certificate=\"{}\" reloaded=true", absl::CEscape(files_.certificate()));
  }
  close(file);
  return good;
}

void PortTls::LookUntilStopped() {
  while (!bell_.Wait(absl::Seconds(kLookSeconds))) {
    if (absl::Status taken = Take(); !taken.ok())
      log_->error("event=tls_refused reason=\"{}\" in_force=\"as before\"", absl::CEscape(taken.message()));
  }
}

}  // namespace kiln::server
