// Who did what that changes the server for others, or touches rights: one line of JSON each, for who must answer for
// the server later. docs/operations.md shows the lines.
//
// What strangers can cause as often as they like (refusals) is written at most once a second for each kind and tenant,
// with how many there were since. No line has a secret: neither tokens nor what they hash to.
#ifndef KILN_SERVER_LOGS_AUDIT_LOG_H_
#define KILN_SERVER_LOGS_AUDIT_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/logs/line_log.h"

namespace kiln::server {

// Safe from any thread.
class AuditLog {
 public:
  explicit AuditLog(std::unique_ptr<LineLog> log) : log_(std::move(log)) {}

  // A tenant called from this address. A line for the first time only, as far as that is remembered.
  void Known(absl::string_view tenant, absl::string_view peer, absl::Time now);
  // Somebody who is nobody's, or has not the right, or has no more of a quota: `why` as it was told.
  void Refused(absl::string_view tenant, absl::string_view peer, absl::string_view method, const absl::Status& why,
               absl::Time now);
  // A call for which somebody needs the right to administer, or that changes what is kept; and how it ended.
  void Called(absl::string_view tenant, absl::string_view peer, absl::string_view method, absl::string_view status,
              absl::Time now);
  // The file of tenants was read again.
  void TenantsRead(const absl::Status& status, absl::Time now);

  LineLog& lines() { return *log_; }
  uint64_t lost() const { return log_->lost(); }

 private:
  // However many there are, so many are remembered; then all are forgotten.
  static constexpr size_t kRemembered = 4096;
  struct Told {
    absl::Time at;
    uint64_t since = 0;  // that were not told
  };

  const std::unique_ptr<LineLog> log_;
  absl::Mutex mutex_;
  absl::flat_hash_set<std::string> known_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Told> refused_ ABSL_GUARDED_BY(mutex_);
};

// "ipv4:10.0.0.1" of "ipv4:10.0.0.1:4711".
absl::string_view HostOf(absl::string_view peer);

}  // namespace kiln::server

#endif  // KILN_SERVER_LOGS_AUDIT_LOG_H_
