#include "server/otlp/sender.h"

#include <curl/curl.h>
#include <zlib.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kiln/v1/otlp.pb.h"

namespace kiln::server {
namespace {

constexpr size_t kMaxAnswerBytes = 64 << 10;
constexpr absl::Duration kMaxRetryAfter = absl::Minutes(5);

// In zlib's words: the largest window, and 16 for the format gzip.
constexpr int kGzip = 15 + 16, kMemory = 8;

std::string Gzipped(const std::string& text) {
  z_stream stream = {};
  KILN_CHECK(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  KILN_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// libcurl gives `bytes` times `count` bytes; fewer taken than given end the transfer.
size_t Append(const char* data, size_t bytes, size_t count, void* text) {
  auto& answer = *static_cast<std::string*>(text);
  const size_t size = bytes * count;
  if (size > kMaxAnswerBytes - answer.size()) return 0;
  answer.append(data, size);
  return size;
}

// Asked every second and more often; not 0 ends the transfer.
int Stopped(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return stop != nullptr && static_cast<const std::atomic<bool>*>(stop)->load(std::memory_order_relaxed) ? 1 : 0;
}

// As OTLP has it; all others will be answered so again.
bool IsForNow(long status) { return status == 429 || status == 502 || status == 503 || status == 504; }

}  // namespace

struct OtlpSender::Curl {
  CURL* handle = curl_easy_init();
  curl_slist* headers = nullptr;

  ~Curl() {
    curl_easy_cleanup(handle);
    curl_slist_free_all(headers);
  }
  void AddHeader(const std::string& header) { headers = curl_slist_append(headers, header.c_str()); }
};

OtlpSender::OtlpSender(const OtlpSettings& settings) : settings_(settings), curl_(std::make_unique<Curl>()) {
  CURL* const curl = curl_->handle;
  if (curl == nullptr) return;
  curl_->AddHeader("Content-Type: application/x-protobuf");
  curl_->AddHeader("Content-Encoding: gzip");
  curl_->AddHeader("Expect:");  // else libcurl asks before it sends what is large
  for (const std::string& header : settings_.headers) curl_->AddHeader(header);
  curl_easy_setopt(curl, CURLOPT_URL, settings_.url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, curl_->headers);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "kilnd");
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http");
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // else the time limit of a name's look-up is a signal
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Stopped);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Append);
  if (!settings_.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, settings_.ca_file.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
}

OtlpSender::~OtlpSender() = default;

Sent OtlpSender::Send(const std::string& body, absl::Duration most, const std::atomic<bool>* stop) {
  Sent sent;
  CURL* const curl = curl_->handle;
  if (curl == nullptr) {
    sent.why = "libcurl does not start";
    return sent;
  }
  const std::string packed = Gzipped(body);
  std::string answer;
  char fault[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(packed.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, packed.data());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(absl::ToInt64Milliseconds(most)));
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, const_cast<std::atomic<bool>*>(stop));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, fault);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  if (code != CURLE_OK) {
    sent.why = fault[0] == '\0' ? curl_easy_strerror(code) : fault;
    return sent;
  }
  long status = 0;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
  if (status != 200) {
    sent.as = IsForNow(status) ? Sent::As::kTryAgain : Sent::As::kRefused;
    sent.retry_after = std::min(absl::Seconds(retry_after), kMaxRetryAfter);
    sent.why = absl::StrCat("the answer is HTTP ", status);
    return sent;
  }
  sent.as = Sent::As::kTaken;
  v1::OtlpAnswer parsed;
  if (parsed.ParseFromString(answer) && parsed.partial_success().rejected_spans() > 0) {
    sent.rejected_spans = parsed.partial_success().rejected_spans();
    sent.why = parsed.partial_success().error_message();
  }
  return sent;
}

}  // namespace kiln::server
