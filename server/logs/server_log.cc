#include "server/logs/server_log.h"

#include <grpc/support/log.h>
#include <spdlog/details/log_msg.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "server/logs/json_line.h"

namespace kiln::server {
namespace {

// As JSON has it, and such that every reader of JSON keeps each digit.
bool IsNumber(absl::string_view text) {
  absl::ConsumePrefix(&text, "-");
  const size_t point = text.find('.');
  const absl::string_view whole = text.substr(0, point);
  const auto digits = [](absl::string_view part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return absl::ascii_isdigit(c); });
  };
  if (text.size() > 15 || !digits(whole) || (whole.size() > 1 && whole[0] == '0')) return false;
  return point == absl::string_view::npos || digits(text.substr(point + 1));
}

bool IsKey(absl::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

// Takes a value in quotation marks off `rest`, which begins with one; nothing if there is no second. What it was made
// by CEscape, or not: descriptions of devices are not.
std::optional<std::string> TakeQuoted(absl::string_view& rest) {
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '\\') {
      ++i;
    } else if (rest[i] == '"') {
      const absl::string_view inside = rest.substr(1, i - 1);
      rest.remove_prefix(i + 1);
      std::string text;
      return absl::CUnescape(inside, &text) ? text : std::string(inside);
    }
  }
  return std::nullopt;
}

class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
    const auto level = spdlog::level::to_string_view(message.level);
    const std::string line = EventAsJson(absl::FromChrono(message.time), absl::string_view(level.data(), level.size()),
                                         absl::string_view(message.payload.data(), message.payload.size()));
    to.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

// gRPC calls a plain function, from any thread and until the process ends.
struct LogOfGrpc {
  absl::Mutex mutex;
  std::shared_ptr<spdlog::logger> log ABSL_GUARDED_BY(mutex);

  void Set(std::shared_ptr<spdlog::logger> other) ABSL_LOCKS_EXCLUDED(mutex) {
    const absl::MutexLock lock(&mutex);
    log.swap(other);
  }
  std::shared_ptr<spdlog::logger> Get() ABSL_LOCKS_EXCLUDED(mutex) {
    const absl::MutexLock lock(&mutex);
    return log;
  }
};

LogOfGrpc& TheLogOfGrpc() {
  static auto* const log = new LogOfGrpc;
  return *log;
}

void TellGrpcsLine(gpr_log_func_args* line) {
  const auto level = line->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::err
                     : line->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::info
                                                               : spdlog::level::debug;
  absl::string_view file = line->file;
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  TheLogOfGrpc().Get()->log(level, "event=grpc source={}:{} message=\"{}\"", std::string(file), line->line,
                            absl::CEscape(line->message));
}

}  // namespace

std::string EventAsJson(absl::Time time, absl::string_view level, absl::string_view event) {
  JsonLine line(time);
  line.Add("level", level);
  std::string message;
  absl::flat_hash_set<std::string> taken = {"time", "level", "more"};
  for (absl::string_view rest = event; !rest.empty();) {
    if (absl::ConsumePrefix(&rest, " ")) continue;
    const size_t end = std::min(rest.find(' '), rest.size()), equals = rest.find('=');
    const absl::string_view key = rest.substr(0, equals);
    // An object has each key once: what would be a second is a word like others.
    if (equals >= end || !IsKey(key) || !taken.emplace(key).second) {
      absl::StrAppend(&message, message.empty() ? "" : " ", rest.substr(0, end));
      rest.remove_prefix(end);
      continue;
    }
    absl::string_view after = rest.substr(equals + 1);
    if (const auto text = absl::StartsWith(after, "\"") ? TakeQuoted(after) : std::nullopt; text.has_value()) {
      line.Add(key, *text);
      rest = after;
      continue;
    }
    const absl::string_view value = rest.substr(equals + 1, end - equals - 1);
    if (key != "graph" && (IsNumber(value) || value == "true" || value == "false")) {
      line.AddLiteral(key, value);
    } else {
      line.Add(key, value);
    }
    rest.remove_prefix(end);
  }
  return line.AddIfAny(taken.contains("message") ? "more" : "message", message).Take();
}

std::shared_ptr<spdlog::logger> MakeServerLog(const std::string& level, absl::string_view format) {
  auto log = std::make_shared<spdlog::logger>("kilnd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (format == "json") {
    log->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    log->set_pattern("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  }
  log->set_level(spdlog::level::from_str(level));
  log->flush_on(spdlog::level::info);
  TheLogOfGrpc().Set(log);
  gpr_set_log_function(TellGrpcsLine);
  return log;
}

}  // namespace kiln::server
