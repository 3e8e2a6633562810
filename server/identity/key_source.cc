#include "server/identity/key_source.h"

#include <curl/curl.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/error.h"

namespace kiln::server {
namespace {

absl::Status Unreadable(absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("tenants");
  return MakeError(detail, message);
}

struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// libcurl gives `bytes` times `count` bytes; fewer taken than given end the transfer.
size_t Append(const char* data, size_t bytes, size_t count, void* text) {
  auto& answer = *static_cast<std::string*>(text);
  const size_t size = bytes * count;
  if (size > kMaxKeySetBytes - answer.size()) return 0;
  answer.append(data, size);
  return size;
}

}  // namespace

std::vector<std::string> KeySource::files() const {
  std::vector<std::string> all;
  for (const std::string* name : {&file, &ca_file, &token_file}) {
    if (!name->empty()) all.push_back(*name);
  }
  return all;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Unreadable(absl::StrCat("cannot read ", path.empty() ? "a file without a name" : path));
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

absl::Status CheckKeyUrl(const std::string& url) {
  if (absl::StartsWith(url, "https://")) return absl::OkStatus();
  for (const absl::string_view here : {"http://localhost:", "http://127.0.0.1:", "http://[::1]:"}) {
    if (absl::StartsWith(url, here)) return absl::OkStatus();
  }
  return Unreadable(absl::StrCat(url, ": keys come by https, or by http from a port of localhost"));
}

absl::StatusOr<std::string> ReadKeys(const KeySource& source) {
  if (source.url.empty()) return ReadFile(source.file);
  KILN_RETURN_IF_ERROR(CheckKeyUrl(source.url));
  const std::unique_ptr<CURL, FreeHandle> handle(curl_easy_init());
  if (handle == nullptr) return Unreadable("libcurl does not start");
  CURL* const curl = handle.get();
  std::unique_ptr<curl_slist, FreeHandle> headers;
  if (!source.token_file.empty()) {
    KILN_ASSIGN_OR_RETURN(std::string token, ReadFile(source.token_file));
    absl::StripTrailingAsciiWhitespace(&token);
    headers.reset(curl_slist_append(nullptr, absl::StrCat("Authorization: Bearer ", token).c_str()));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  }
  if (!source.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, source.ca_file.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  std::string answer;
  char fault[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
  curl_easy_setopt(curl, CURLOPT_URL, source.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http");
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(absl::ToInt64Milliseconds(kKeyTimeout)));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // else the time limit of a name's look-up is a signal
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, fault);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  const CURLcode code = curl_easy_perform(curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (code == CURLE_WRITE_ERROR) {
    return Unreadable(absl::StrCat(source.url, ": the answer is longer than ", kMaxKeySetBytes, " bytes"));
  }
  if (code != CURLE_OK)
    return Unreadable(absl::StrCat(source.url, ": ", fault[0] == '\0' ? curl_easy_strerror(code) : fault));
  if (status != 200) return Unreadable(absl::StrCat(source.url, ": the answer is HTTP ", status, ", not 200"));
  return answer;
}

}  // namespace kiln::server
