#include "server/state/call_row.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "server/metrics/labels.h"

namespace kiln::server {
namespace {

template <size_t kBytes>
std::string HexOf(const std::array<uint8_t, kBytes>& id) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(id.data()), kBytes});
}

std::string StatusName(uint16_t code) {
  return code < LabelOf<GrpcStatus>::kMost ? LabelOf<GrpcStatus>::kNames[code] : std::to_string(code);
}

}  // namespace

void FillCall(const CallRecord& record, absl::string_view method, std::string tenant, absl::Time now,
              v1::StateResponse::Call& row) {
  row.set_method(std::string(method));
  row.set_tenant(std::move(tenant));
  row.set_device(std::string(record.parts.device.view()));
  row.set_status(StatusName(record.status));
  row.set_seconds(static_cast<double>(record.time.end_ns - record.time.begin_ns) / 1e9);
  row.set_ago_seconds(std::max(0.0, static_cast<double>(absl::ToUnixNanos(now) - record.time.end_ns) / 1e9));
  row.set_trace_id(HexOf(record.trace.trace_id));
  for (size_t part = 0; part < kParts; ++part) {
    const Interval& time = record.parts.parts[part];
    if (time.end_ns == 0) continue;
    v1::StateResponse::Part& shown = *row.add_parts();
    shown.set_name(kPartNames[part]);
    shown.set_seconds(static_cast<double>(time.end_ns - time.begin_ns) / 1e9);
  }
}

}  // namespace kiln::server
