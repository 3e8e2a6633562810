#include "server/logs/call_log.h"

#include <algorithm>

#include "server/logs/json_line.h"

namespace kiln::server {

std::string CallLine(const EndedCall& call) {
  JsonLine line(call.end);
  line.AddIfAny("tenant", call.tenant)
      .Add("peer", call.peer)
      .Add("method", call.method)
      .Add("status", absl::StatusCodeToString(call.status));
  line.AddIfAny("error", call.error).AddIfAny("device", call.parts.device.view());
  line.Add("received", call.received_bytes).Add("sent", call.sent_bytes).Open("us");
  line.Add("total", static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Microseconds(call.end - call.begin))));
  for (size_t i = 0; i < kParts; ++i) {
    const Interval& time = call.parts.parts[i];
    if (time.end_ns == 0) continue;
    line.Add(kPartNames[i], static_cast<uint64_t>(std::max<int64_t>(0, time.end_ns - time.begin_ns) / 1000));
  }
  return line.Close().Take();
}

}  // namespace kiln::server
