// One collection of the state, as its parts see it. For the .cc files of this folder alone.
#ifndef KILN_SERVER_STATE_COLLECTING_H_
#define KILN_SERVER_STATE_COLLECTING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "kiln/v1/state.pb.h"
#include "server/fair/turns.h"
#include "server/state/state.h"

namespace kiln::server {

class Engine;

// Most rows of each list.
inline constexpr size_t kMaxRows = 256;
inline constexpr size_t kMaxPrograms = 1000;
inline constexpr size_t kMaxRunning = 64;

struct Collecting {
  Engine& engine;
  const ShareHistory& history;
  const StateViewer& viewer;
  const v1::StateRequest& asked;
  absl::Time now;
  std::vector<const Account*> accounts;  // that are shown, by name; a null one stands for who is no tenant
  // Their names: of their numbers in records (traces.h), and of what flows of a fair queue belong to.
  absl::flat_hash_map<uint32_t, std::string> by_number;
  absl::flat_hash_map<uint64_t, std::string> by_flow;
  std::vector<LineLook> lines;  // by device, with waiting_of the accounts

  bool whole() const { return viewer.account == nullptr; }
  bool Shows(const Account* account) const { return whole() || account == viewer.account; }
  size_t MostOf(size_t most) const { return asked.max_rows() == 0 ? most : std::min<size_t>(most, asked.max_rows()); }
  std::string NameOf(uint32_t owner) const {
    const auto found = by_number.find(owner);
    return found == by_number.end() ? "" : found->second;
  }
};

void AddDevices(const Collecting& from, v1::StateResponse& state);
void AddTenants(const Collecting& from, v1::StateResponse& state);
void AddHistory(const Collecting& from, v1::StateResponse& state);
void AddSessions(const Collecting& from, v1::StateResponse& state);
void AddCompiler(const Collecting& from, v1::StateResponse& state);
void AddPrograms(const Collecting& from, v1::StateResponse& state);
void AddSlowCalls(const Collecting& from, const SlowCalls& calls, v1::StateResponse& state);

}  // namespace kiln::server

#endif  // KILN_SERVER_STATE_COLLECTING_H_
