// A server's state (proto/kiln/v1/state.proto) as tables for a terminal.
#ifndef KILN_CLIENT_CLI_TEXT_STATE_TEXT_H_
#define KILN_CLIENT_CLI_TEXT_STATE_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "kiln/v1/debug_service.pb.h"
#include "kiln/v1/state.pb.h"

namespace kiln::cli {

// By what rows are in order, the largest first.
enum class StateOrder { kTime, kWaiting, kMemory, kName };
inline constexpr const char* kStateOrders[] = {"time", "waiting", "memory", "name"};

std::string DevicesText(const v1::StateResponse& state);
// A line for each device that a tenant used, or waits for; with bars of its part of the last second, and a mark where
// its weight would put it.
std::string TenantsText(const v1::StateResponse& state, StateOrder order);
std::string SessionsText(const v1::StateResponse& state);
std::string StreamsText(const v1::StateResponse& state);
std::string ProgramsText(const v1::StateResponse& state, StateOrder order);
std::string SlowCallsText(const v1::StateResponse& state);

// All that `kiln top` shows, in at most so many lines and columns: programs give way first. 0: as many as it takes.
std::string TopText(const v1::StateResponse& state, StateOrder order, size_t lines, size_t columns);

// `part` of 1 as a bar of `width` characters, with a mark at `due` if that is above 0.
std::string BarText(double part, double due, size_t width);

// What a terminal would obey rather than show becomes '?'.
std::string Shown(absl::string_view text);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_STATE_TEXT_H_
