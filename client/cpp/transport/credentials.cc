#include "client/cpp/transport/credentials.h"

#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace kiln::client {
namespace {

constexpr char kSystem[] = "system";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool Read(const std::string& path, std::string& text) {
  std::ifstream file(path);
  text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return file.good() || file.eof();
}

}  // namespace

bool StaysHere(absl::string_view target) {
  if (absl::StartsWith(target, "unix:")) return true;
  for (const char* scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) absl::ConsumePrefix(&target, scheme);
  const absl::string_view host = target.substr(0, target.rfind(':'));
  // "127.example.com" is a name like any other, and a list may have others in it.
  const bool numeric = host.find_first_not_of("0123456789.") == absl::string_view::npos;
  return host == "localhost" || host == "[::1]" || (numeric && absl::StartsWith(host, "127."));
}

bool MayFollow(const CredentialOptions& options, absl::string_view address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535)
    return false;
  absl::string_view host = address.substr(0, colon);
  const bool version6 = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  const auto plain = [version6](char c) { return absl::ascii_isalnum(c) || c == '.' || c == (version6 ? ':' : '-'); };
  if (host.empty() || !std::all_of(host.begin(), host.end(), plain)) return false;
  const bool token = !options.token.empty() || !options.token_file.empty();
  return !token || !options.tls_ca.empty() || StaysHere(address);
}

CredentialOptions CredentialOptions::FromEnvironment() {
  CredentialOptions options;
  options.tls_ca = Environment("KILN_TLS_CA");
  options.tls_certificate = Environment("KILN_TLS_CERTIFICATE");
  options.tls_key = Environment("KILN_TLS_KEY");
  options.token = Environment("KILN_TOKEN");
  options.token_file = Environment("KILN_TOKEN_FILE");
  return options;
}

absl::Status CheckCredentials(const CredentialOptions& options, const std::string& target) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError("a client's certificate and its key go together");
  }
  if (options.tls_ca.empty() && !options.tls_certificate.empty()) {
    return absl::InvalidArgumentError(
        "a certificate is shown on an encrypted connection; say who signs the server's, or \"system\"");
  }
  for (const std::string* path : {&options.tls_ca, &options.tls_certificate, &options.tls_key, &options.token_file}) {
    std::string text;
    if (!path->empty() && *path != kSystem && (!Read(*path, text) || text.empty())) {
      return absl::InvalidArgumentError(absl::StrCat("cannot read ", *path, ", or it is empty"));
    }
  }
  const bool token = !options.token.empty() || !options.token_file.empty();
  if (token && options.tls_ca.empty() && !options.insecure && !StaysHere(target)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token would travel to ", target,
                     " where others can read it; say who signs the server's certificate (or \"system\")"));
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const CredentialOptions& options) {
  if (options.tls_ca.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  if (options.tls_ca != kSystem) Read(options.tls_ca, ssl.pem_root_certs);
  if (!options.tls_key.empty()) {
    Read(options.tls_key, ssl.pem_private_key);
    Read(options.tls_certificate, ssl.pem_cert_chain);
  }
  return grpc::SslCredentials(ssl);
}

BearerSource::BearerSource(const CredentialOptions& options) : file_(options.token_file) {
  if (!options.token.empty()) value_ = absl::StrCat("Bearer ", options.token);
}

std::string BearerSource::Value() {
  absl::MutexLock lock(&mutex_);
  if (file_.empty()) return value_;
  const absl::Time now = absl::Now();
  if (now - looked_ < kBelieved) return value_;
  looked_ = now;
  std::string text;
  // In the middle of a change it may be gone, or empty: the token before counts for a while.
  if (Read(file_, text) && !absl::StripAsciiWhitespace(text).empty()) {
    value_ = absl::StrCat("Bearer ", absl::StripAsciiWhitespace(text));
  }
  return value_;
}

std::string BearerSource::Newest() {
  {
    absl::MutexLock lock(&mutex_);
    looked_ = absl::InfinitePast();
  }
  return Value();
}

}  // namespace kiln::client
