// The logs of one server that people keep, beside what it tells on standard error: each is there if its file is named.
#ifndef KILN_SERVER_LOGS_LOGS_H_
#define KILN_SERVER_LOGS_LOGS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "kiln/v1/config.pb.h"
#include "server/logs/audit_log.h"
#include "server/logs/line_log.h"

namespace kiln::server {

struct Logs {
  std::string format;  // of what is told on standard error
  std::unique_ptr<AuditLog> audit;
  std::unique_ptr<LineLog> access;
  std::unique_ptr<LineLog> slow;

  // BAD_ARGUMENT for a file that cannot be written.
  static absl::StatusOr<Logs> Open(const v1::ServerConfig& config) {
    Logs logs;
    logs.format = config.log_format();
    if (!config.audit_log().empty()) {
      auto lines = LineLog::Open(config.audit_log(), "audit_log");
      if (!lines.ok()) return lines.status();
      logs.audit = std::make_unique<AuditLog>(*std::move(lines));
    }
    for (const auto& [path, field, log] : {std::tuple(config.access_log(), "access_log", &logs.access),
                                           std::tuple(config.slow_log(), "slow_log", &logs.slow)}) {
      if (path.empty()) continue;
      auto lines = LineLog::Open(path, field);
      if (!lines.ok()) return lines.status();
      *log = *std::move(lines);
    }
    return logs;
  }

  // Their names may stand for new files now.
  void Reopen() {
    if (audit != nullptr) audit->lines().Reopen();
    if (access != nullptr) access->Reopen();
    if (slow != nullptr) slow->Reopen();
  }

  uint64_t audit_lost() const { return audit == nullptr ? 0 : audit->lost(); }
  // And of slow ones.
  uint64_t access_lost() const {
    return (access == nullptr ? 0 : access->lost()) + (slow == nullptr ? 0 : slow->lost());
  }
};

}  // namespace kiln::server

#endif  // KILN_SERVER_LOGS_LOGS_H_
