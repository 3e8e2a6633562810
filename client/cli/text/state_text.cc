#include "client/cli/text/state_text.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/text/table.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

using State = v1::StateResponse;

std::string Percent(double part) { return absl::StrFormat("%.1f%%", 100 * part); }
std::string Seconds(double seconds) { return MicrosText(1e6 * seconds); }
std::string Bytes(uint64_t bytes) { return BytesText(static_cast<double>(bytes)); }
std::string ShortHash(const std::string& hash) { return hash.empty() ? "-" : hash.substr(0, 12); }
std::string OrDash(const std::string& name) { return name.empty() ? "-" : Shown(name); }

// "3d 4h", "4h 5m", "5m 6s".
std::string UpText(double seconds) {
  const auto all = static_cast<uint64_t>(std::max(0.0, seconds));
  const uint64_t days = all / 86400, hours = all / 3600 % 24, minutes = all / 60 % 60;
  if (days > 0) return absl::StrCat(days, "d ", hours, "h");
  if (hours > 0) return absl::StrCat(hours, "h ", minutes, "m");
  return absl::StrCat(minutes, "m ", all % 60, "s");
}

std::string LeftOut(uint64_t rows, absl::string_view what) {
  return rows == 0 ? "" : absl::StrCat("… and ", rows, " more ", what, "\n");
}

uint64_t BytesOf(const State::Tenant& tenant) {
  uint64_t bytes = 0;
  for (const State::Memory& memory : tenant.memory()) bytes += memory.kind() == "disk" ? 0 : memory.bytes();
  return bytes;
}

double TimeOf(const State::Tenant& tenant) {
  double seconds = 0;
  for (const State::Share& share : tenant.shares()) seconds += share.busy_minute();
  return seconds;
}

// Pointers to the rows, the largest first; equal ones stay in their order.
template <typename Item, typename Key>
std::vector<const Item*> Sorted(const google::protobuf::RepeatedPtrField<Item>& items, const Key& key) {
  std::vector<const Item*> sorted;
  for (const Item& item : items) sorted.push_back(&item);
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Item* a, const Item* b) { return key(*a) > key(*b); });
  return sorted;
}

std::string RunText(const State::Device& device) {
  if (!device.up()) return absl::StrCat("lost: ", Shown(device.fault()));
  if (device.running().empty()) return "idle";
  const State::Run& run = device.running(0);
  const size_t others = static_cast<size_t>(device.running_size() - 1) + device.running_left_out();
  return absl::StrCat(OrDash(run.tenant()), " ", run.graph_hash().empty() ? "transfer" : ShortHash(run.graph_hash()),
                      " for ", Seconds(run.seconds()), others == 0 ? "" : absl::StrCat(" and ", others, " behind"));
}

}  // namespace

std::string Shown(absl::string_view text) {
  std::string shown(text);
  for (char& byte : shown) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) byte = '?';
  }
  return shown;
}

std::string BarText(double part, double due, size_t width) {
  const auto full = static_cast<size_t>(std::lround(std::clamp(part, 0.0, 1.0) * static_cast<double>(width)));
  const auto mark = static_cast<size_t>(std::clamp(due, 0.0, 1.0) * static_cast<double>(width) + 0.5);
  std::string bar;
  for (size_t i = 0; i < width; ++i) {
    const bool has_mark = due > 0 && i + 1 == std::clamp<size_t>(mark, 1, width);
    absl::StrAppend(&bar, has_mark ? "|" : i < full ? "█" : "·");
  }
  return bar;
}

std::string DevicesText(const v1::StateResponse& state) {
  std::vector<Row> rows;
  if (state.whole()) {
    rows.push_back({"device", "busy 1s", "60s", "memory", "of", "waiting", "on it", "next waits", "now"});
  } else {
    rows.push_back({"device", "memory of", "now"});
  }
  for (const State::Device& device : state.devices()) {
    Row row = {Shown(device.name())};
    if (state.whole()) {
      row.insert(row.end(),
                 {Percent(device.busy_second()), Percent(device.busy_minute()), Bytes(device.memory_in_use_bytes()),
                  Bytes(device.memory_limit_bytes()), absl::StrCat(device.waiting()), absl::StrCat(device.in_flight()),
                  Seconds(device.predicted_wait_seconds())});
    } else {
      row.push_back(Bytes(device.memory_limit_bytes()));
    }
    row.push_back(RunText(device));
    rows.push_back(std::move(row));
  }
  return TableText(rows) + LeftOut(state.devices_left_out(), "devices");
}

std::string TenantsText(const v1::StateResponse& state, StateOrder order) {
  constexpr size_t kBar = 20;
  std::vector<Row> rows = {
      {"tenant", "weight", "device", "last second", "", "60s", "due", "busy", "waiting", "memory", "refused"}};
  const auto tenants = Sorted(state.tenants(), [order](const State::Tenant& tenant) {
    switch (order) {
      case StateOrder::kTime: return TimeOf(tenant);
      case StateOrder::kWaiting: return static_cast<double>(tenant.waiting());
      case StateOrder::kMemory: return static_cast<double>(BytesOf(tenant));
      case StateOrder::kName: return 0.0;
    }
    return 0.0;
  });
  for (const State::Tenant* tenant : tenants) {
    bool is_first = true;
    for (const State::Share& share : tenant->shares()) {
      const bool has_some = share.busy_minute() > 0 || share.waiting() > 0;
      if (!has_some && !(is_first && share.device() == tenant->shares().rbegin()->device())) continue;
      // Of its own, who does not see the whole is told what it had of the device.
      const double part = state.whole() ? share.share_second() : share.busy_second();
      const double minute = state.whole() ? share.share_minute() : share.busy_minute();
      rows.push_back({is_first ? OrDash(tenant->name()) : "", is_first ? absl::StrCat(tenant->weight()) : "",
                      Shown(share.device()), BarText(part, share.entitled_second(), kBar), Percent(part),
                      Percent(minute), share.entitled_second() > 0 ? Percent(share.entitled_second()) : "-",
                      Seconds(share.busy_seconds_total()), absl::StrCat(share.waiting()),
                      is_first ? Bytes(BytesOf(*tenant)) : "", is_first ? absl::StrCat(tenant->refusals()) : ""});
      is_first = false;
    }
  }
  return TableText(rows) + LeftOut(state.tenants_left_out(), "tenants");
}

std::string SessionsText(const v1::StateResponse& state) {
  std::vector<Row> rows = {{"session", "tenant", "from", "buffers", "memory", "lease", "streams"}};
  for (const State::Session& session : state.sessions()) {
    const bool has_lease = session.lease_left_seconds() > 0;
    rows.push_back({OrDash(session.id()), OrDash(session.tenant()), OrDash(session.host()),
                    absl::StrCat(session.buffers()), Bytes(session.bytes()),
                    has_lease              ? Seconds(session.lease_left_seconds())
                    : session.id().empty() ? "none"
                                           : "kept",
                    absl::StrCat(session.connections())});
  }
  return TableText(rows) + LeftOut(state.sessions_left_out(), "sessions");
}

std::string StreamsText(const v1::StateResponse& state) {
  std::vector<Row> rows = {{"stream of", "tenant", "client", "accepted", "pending", "under way", "payload", "answers"}};
  for (const State::Stream& stream : state.streams()) {
    rows.push_back({OrDash(stream.session()), OrDash(stream.tenant()), stream.connected() ? "there" : "away",
                    absl::StrCat(stream.accepted()), absl::StrCat(stream.pending()), absl::StrCat(stream.under_way()),
                    Bytes(stream.payload_bytes()), Bytes(stream.answer_bytes())});
  }
  return TableText(rows) + LeftOut(state.streams_left_out(), "streams");
}

std::string ProgramsText(const v1::StateResponse& state, StateOrder order) {
  std::vector<Row> rows = {
      {"program", "tenant", "device", "runs", "time", "each", "GFLOP/s", "GB/s", "size", "last run", "hits"}};
  const auto programs = Sorted(state.programs(), [order](const State::Program& program) {
    switch (order) {
      case StateOrder::kTime: return program.device_seconds();
      case StateOrder::kWaiting: return static_cast<double>(program.runs());
      case StateOrder::kMemory: return static_cast<double>(program.bytes());
      case StateOrder::kName: return 0.0;
    }
    return 0.0;
  });
  const auto rate = [](const State::Program& program, uint64_t of_each) {
    if (program.runs() == 0 || program.device_seconds() <= 0) return std::string("-");
    const double all = static_cast<double>(of_each) * static_cast<double>(program.runs());
    return absl::StrFormat("%.3g", all / program.device_seconds() / 1e9);
  };
  for (const State::Program* program : programs) {
    const double each = program->runs() == 0 ? 0 : program->device_seconds() / static_cast<double>(program->runs());
    rows.push_back({ShortHash(program->graph_hash()), OrDash(program->tenant()), Shown(program->device()),
                    absl::StrCat(program->runs()), Seconds(program->device_seconds()), Seconds(each),
                    rate(*program, program->flops()), rate(*program, program->bytes_read() + program->bytes_written()),
                    Bytes(program->bytes()),
                    program->runs() == 0 ? "never" : absl::StrCat(Seconds(program->idle_seconds()), " ago"),
                    absl::StrCat(program->hits())});
  }
  return TableText(rows) + LeftOut(state.programs_left_out(), "programs");
}

std::string SlowCallsText(const v1::StateResponse& state) {
  std::vector<Row> rows = {{"ended", "took", "call", "tenant", "device", "status", "where the time went"}};
  for (const State::Call& call : state.slow_calls()) {
    std::vector<std::string> parts;
    for (const State::Part& part : call.parts()) {
      if (part.seconds() >= 0.01 * call.seconds()) parts.push_back(part.name() + " " + Seconds(part.seconds()));
    }
    rows.push_back({absl::StrCat(Seconds(call.ago_seconds()), " ago"), Seconds(call.seconds()), Shown(call.method()),
                    OrDash(call.tenant()), OrDash(call.device()), call.status(), absl::StrJoin(parts, ", ")});
  }
  return TableText(rows) + LeftOut(state.slow_calls_left_out(), "before");
}

std::string TopText(const v1::StateResponse& state, StateOrder order, size_t lines, size_t columns) {
  std::string text = absl::StrCat(
      "kilnd ", Shown(state.server().version()), ", up ", UpText(state.server().up_seconds()), ", ",
      state.whole() ? "all of it" : absl::StrCat("what is ", Shown(state.tenant()), "'s"), ": ",
      state.sessions_size() + state.sessions_left_out(), " sessions, ", state.streams_size() + state.streams_left_out(),
      " streams; compiling ", state.compiler().running_size(), " of ", state.compiler().threads(), " at once, ",
      state.compiler().waiting(), " waiting\n\n");
  absl::StrAppend(&text, DevicesText(state), "\n", TenantsText(state, order), "\n");
  if (!state.slow_calls().empty()) {
    State few;
    for (int i = 0; i < std::min(5, state.slow_calls_size()); ++i) *few.add_slow_calls() = state.slow_calls(i);
    absl::StrAppend(&text, "calls of ", Seconds(state.slow_after_seconds()), " and more\n", SlowCallsText(few), "\n");
  }
  absl::StrAppend(&text, ProgramsText(state, order));
  std::vector<std::string> all = absl::StrSplit(text, '\n');
  if (!all.empty() && all.back().empty()) all.pop_back();
  if (lines > 0 && all.size() > lines) all.resize(lines);
  for (std::string& line : all) {
    if (columns == 0) break;
    size_t seen = 0, at = 0;
    // A byte that begins a character takes a column, and those that go on with it none.
    for (; at < line.size(); ++at) {
      if ((static_cast<unsigned char>(line[at]) & 0xc0) != 0x80 && seen++ == columns) break;
    }
    line.resize(at);
  }
  return absl::StrJoin(all, "\n") + "\n";
}

}  // namespace kiln::cli
