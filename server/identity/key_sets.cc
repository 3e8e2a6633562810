#include "server/identity/key_sets.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/identity/json_web_key.h"

namespace kiln::server {
namespace {

absl::Status NotHad(absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("tenants");
  return MakeError(detail, message);
}

}  // namespace

absl::StatusOr<std::string> KeySets::Of(const KeySource& source) const {
  absl::MutexLock lock(&mutex_);
  const auto row = rows_.find(source);
  if (row == rows_.end()) return NotHad(absl::StrCat(source.url, " has not been asked yet"));
  if (row->second.keys.empty()) return row->second.fault;
  return row->second.keys;
}

KeySets::Asked KeySets::Ask(const std::vector<KeySource>& sources) {
  std::map<KeySource, absl::StatusOr<std::string>> answers;
  for (const KeySource& source : sources) answers.emplace(source, std::string());
  std::vector<std::thread> askers;
  for (auto& each : answers) {
    askers.emplace_back([this, &each] {
      auto& [source, answer] = each;
      answer = read_(source);
      if (!answer.ok()) return;
      // What is no key set is no answer: the one before counts.
      const absl::Status status = ParseJsonWebKeys(*answer).status();
      if (!status.ok()) answer = NotHad(absl::StrCat(source.url, ": ", status.message()));
    });
  }
  for (std::thread& asker : askers) asker.join();
  Asked asked;
  absl::MutexLock lock(&mutex_);
  std::map<KeySource, Row> rows;
  for (auto& [source, answer] : answers) {
    Row& row = rows[source];
    if (const auto before = rows_.find(source); before != rows_.end()) {
      row = std::move(before->second);
    } else {
      asked.changed = true;
    }
    row.fault = answer.status();
    if (!answer.ok()) {
      asked.faults.push_back({source, row.fault, !row.keys.empty()});
    } else if (row.keys != *answer) {
      row.keys = *std::move(answer);
      asked.changed = true;
    }
  }
  rows_ = std::move(rows);
  return asked;
}

}  // namespace kiln::server
