// The state of sessions and of streams of commands. Tested by state_test and tests/e2e/state_test.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "server/engine/engine.h"
#include "server/state/collecting.h"

namespace kiln::server {
namespace {

using SessionRow = v1::StateResponse::Session;
using StreamRow = v1::StateResponse::Stream;

// Those of most weight, without keeping the others: what is kept is at most twice what is shown.
template <typename Row>
class Most {
 public:
  explicit Most(size_t most) : most_(most) {}

  void Add(std::pair<uint64_t, uint64_t> weight, Row row) {
    ++seen_;
    rows_.emplace_back(weight, std::move(row));
    if (rows_.size() >= 2 * most_ + 2) Cut();
  }
  // In order; how many are left out.
  template <typename Rows>
  uint32_t MoveTo(Rows* rows) {
    Cut();
    for (auto& [weight, row] : rows_) *rows->Add() = std::move(row);
    return static_cast<uint32_t>(seen_ - rows_.size());
  }

 private:
  void Cut() {
    std::stable_sort(rows_.begin(), rows_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    if (rows_.size() > most_) rows_.resize(most_);
  }

  const size_t most_;
  std::vector<std::pair<std::pair<uint64_t, uint64_t>, Row>> rows_;
  size_t seen_ = 0;
};

}  // namespace

void AddSessions(const Collecting& from, v1::StateResponse& state) {
  Most<SessionRow> sessions(from.MostOf(kMaxRows));
  Most<StreamRow> streams(from.MostOf(kMaxRows));
  absl::flat_hash_set<const Session*> seen;
  std::optional<absl::string_view> tenant;
  if (!from.whole()) tenant = from.viewer.account->name();
  from.engine.sessions().ForEach(tenant, [&](const SessionTable::Listed& listed) {
    const Session& session = *listed.session;
    if (!seen.insert(&session).second) return;
    const auto stream = session.stream();
    const Session::Use use = session.use();
    const std::string id = SessionId(listed.token);
    if (stream != nullptr) {
      const SessionStream::Use stream_use = stream->use();
      StreamRow row;
      row.set_session(id);
      row.set_tenant(session.tenant());
      row.set_connected(stream_use.connected);
      row.set_accepted(stream_use.accepted);
      row.set_pending(stream_use.pending);
      row.set_under_way(stream_use.under_way);
      row.set_payload_bytes(stream_use.payload_bytes);
      row.set_answer_bytes(stream_use.answer_bytes);
      streams.Add({stream_use.under_way + stream_use.pending, stream_use.accepted}, std::move(row));
    }
    SessionRow row;
    row.set_id(id);
    row.set_tenant(session.tenant());
    row.set_host(std::string(listed.host));
    row.set_buffers(use.handles);
    row.set_bytes(use.bytes);
    const int connections = session.connections.load(std::memory_order_relaxed);
    row.set_connections(static_cast<uint32_t>(std::max(0, connections)));
    const double left = std::chrono::duration<double>(listed.left).count();
    if (connections == 0) row.set_lease_left_seconds(std::max(0.0, left));
    sessions.Add({use.bytes, use.handles}, std::move(row));
  });
  state.set_sessions_left_out(sessions.MoveTo(state.mutable_sessions()));
  state.set_streams_left_out(streams.MoveTo(state.mutable_streams()));
}

}  // namespace kiln::server
