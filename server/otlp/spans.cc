#include "server/otlp/spans.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/metrics/labels.h"

namespace kiln::server {
namespace {

using Span = v1::OtlpTraces::Span;

// Of Span.flags.
constexpr uint32_t kSampled = 0x1, kParentKnown = 0x100, kParentRemote = 0x200;

template <typename Id>
std::string BytesOf(const Id& id) {
  return std::string(reinterpret_cast<const char*>(id.data()), id.size());
}

void AddText(Span& span, absl::string_view key, absl::string_view value) {
  if (value.empty()) return;
  v1::OtlpTraces::KeyValue& attribute = *span.add_attributes();
  attribute.set_key(std::string(key));
  attribute.mutable_value()->set_string_value(std::string(value));
}

void AddNumber(Span& span, absl::string_view key, int64_t value) {
  v1::OtlpTraces::KeyValue& attribute = *span.add_attributes();
  attribute.set_key(std::string(key));
  attribute.mutable_value()->set_int_value(value);
}

// Of a server's statuses, those that are its own fault, by OpenTelemetry's conventions for gRPC.
bool IsFault(GrpcStatus status) {
  switch (status) {
    case GrpcStatus::kUnknown:
    case GrpcStatus::kDeadlineExceeded:
    case GrpcStatus::kUnimplemented:
    case GrpcStatus::kInternal:
    case GrpcStatus::kUnavailable:
    case GrpcStatus::kDataLoss: return true;
    default: return false;
  }
}

// What lies in a span, or is a part of one.
struct Within {
  SpanId id = {};
  Interval time;
};

Interval Clamped(const Interval& time, const Interval& within) {
  return {std::clamp(time.begin_ns, within.begin_ns, within.end_ns),
          std::clamp(time.end_ns, within.begin_ns, within.end_ns)};
}

void SetTime(Span& span, const Interval& time) {
  span.set_start_time_unix_nano(static_cast<uint64_t>(time.begin_ns));
  span.set_end_time_unix_nano(static_cast<uint64_t>(time.end_ns));
}

// All spans of one call.
class Writer {
 public:
  Writer(const CallRecord& call, const SpanNames& names, v1::OtlpTraces::ScopeSpans& spans)
      : call_(call), names_(names), spans_(spans), itself_{call.trace.span_id, call.time} {
    // A clock that was set back.
    itself_.time.end_ns = std::max(itself_.time.begin_ns, itself_.time.end_ns);
  }

  void Write(const CompileStages* stages, absl::Span<const RunOfDevice> runs) {
    WriteCall();
    Within device = itself_;
    int64_t before = itself_.time.begin_ns;  // parts come one after the other
    for (size_t part = 0; part < kParts; ++part) {
      if (call_.parts.parts[part].end_ns == 0) continue;
      const Interval time = Clamped(call_.parts.parts[part], {before, std::max(before, itself_.time.end_ns)});
      const Within made = Add(itself_, kPartNames[part], time);
      if (static_cast<Part>(part) == Part::kDevice) device = made;
      if (static_cast<Part>(part) == Part::kCompile && stages != nullptr) {
        for (const StageTime& stage : stages->all()) {
          Add(made, NameOf(stage.stage), Clamped(stage.time, time));
          if (stage.failed) AddText(*spans_.mutable_spans(spans_.spans_size() - 1), "kiln.failed", "true");
        }
      }
      before = time.end_ns;
    }
    WriteRuns(runs, device);
  }

 private:
  void WriteCall() {
    const CallTrace& trace = call_.trace;
    Span& span = *spans_.add_spans();
    span.set_trace_id(BytesOf(trace.trace_id));
    span.set_span_id(BytesOf(trace.span_id));
    const bool has_parent = trace.remote || (call_.command != 0 && !trace.linked);
    if (has_parent) span.set_parent_span_id(BytesOf(trace.parent));
    span.set_flags(kSampled | kParentKnown | (trace.remote ? kParentRemote : 0));
    if (trace.linked) {
      v1::OtlpTraces::Link& link = *span.add_links();
      link.set_trace_id(BytesOf(TraceOf(trace.parent)));
      link.set_span_id(BytesOf(trace.parent));
    }
    const SpanNames::Rpc rpc = names_.rpc(call_.method);
    const std::string service = absl::StrCat(rpc.package, ".", rpc.service);
    const absl::string_view command = call_.command == 0 ? "" : names_.command(call_.command);
    span.set_name(absl::StrCat(service, "/", rpc.name, command.empty() ? "" : " ", command));
    span.set_kind(call_.command == 0 ? Span::SPAN_KIND_SERVER : Span::SPAN_KIND_INTERNAL);
    SetTime(span, itself_.time);
    AddText(span, "rpc.system", "grpc");
    AddText(span, "rpc.service", service);
    AddText(span, "rpc.method", rpc.name);
    AddNumber(span, "rpc.grpc.status_code", call_.status);
    AddText(span, "kiln.command", command);
    AddText(span, "kiln.tenant", names_.tenant(call_.owner));
    AddText(span, "kiln.device", call_.parts.device.view());
    const bool known = call_.status < LabelOf<GrpcStatus>::kMost;
    const auto status = known ? static_cast<GrpcStatus>(call_.status) : GrpcStatus::kUnknown;
    if (!IsFault(status)) return;
    span.mutable_status()->set_code(v1::OtlpTraces::Status::STATUS_CODE_ERROR);
    span.mutable_status()->set_message(LabelOf<GrpcStatus>::kNames[static_cast<size_t>(status)]);
  }

  // Kernels end before their run does, so the run of each is the next of its device; without one they are the part's.
  void WriteRuns(absl::Span<const RunOfDevice> runs, const Within& part) {
    struct OfDevice {
      absl::string_view device;
      Within run;
    };
    std::vector<OfDevice> last;  // of few devices, seen from the end
    for (size_t i = runs.size(); i-- > 0;) {
      const RunOfDevice& run = runs[i];
      const auto found = std::find_if(last.begin(), last.end(),
                                      [&](const OfDevice& each) { return each.device == run.device.view(); });
      const bool whole = run.kernel.view().empty();
      const Within& parent = whole || found == last.end() ? part : found->run;
      const Within made = Add(parent, whole ? "run" : run.kernel.view(), Clamped(run.time, parent.time));
      Span& span = *spans_.mutable_spans(spans_.spans_size() - 1);
      AddText(span, "kiln.device", run.device.view());
      if (!whole) continue;
      AddNumber(span, "kiln.launches", run.launches);
      if (found != last.end()) {
        found->run = made;
      } else {
        last.push_back({run.device.view(), made});
      }
    }
  }

  Within Add(const Within& parent, absl::string_view name, const Interval& time) {
    const Within made = {ChildOf(itself_.id, ++children_), time};
    Span& span = *spans_.add_spans();
    span.set_trace_id(BytesOf(call_.trace.trace_id));
    span.set_span_id(BytesOf(made.id));
    span.set_parent_span_id(BytesOf(parent.id));
    span.set_flags(kSampled | kParentKnown);
    span.set_name(std::string(name));
    span.set_kind(Span::SPAN_KIND_INTERNAL);
    SetTime(span, time);
    return made;
  }

  const CallRecord& call_;
  const SpanNames& names_;
  v1::OtlpTraces::ScopeSpans& spans_;
  Within itself_;
  uint64_t children_ = 0;
};

}  // namespace

void AppendSpans(const CallRecord& call, const CompileStages* stages, absl::Span<const RunOfDevice> runs,
                 const SpanNames& names, v1::OtlpTraces::ScopeSpans& spans) {
  Writer(call, names, spans).Write(stages, runs);
}

}  // namespace kiln::server
