#include "server/otlp/spans.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace kiln::server {
namespace {

using Span = v1::OtlpTraces::Span;

SpanNames Names() {
  SpanNames names;
  names.rpc = [](uint16_t method) {
    return method == 1 ? SpanNames::Rpc{"kiln.v1", "KernelService", "Submit"}
                       : SpanNames::Rpc{"kiln.v1", "KernelService", "Execute"};
  };
  names.command = [](uint8_t command) { return command == 9 ? "execute" : "?"; };
  names.tenant = [](uint32_t owner) { return owner == 3 ? "alice" : ""; };
  return names;
}

CallRecord Call() {
  CallRecord call;
  call.trace.trace_id.fill(1);
  call.trace.span_id.fill(2);
  call.trace.sampled = true;
  call.owner = 3;
  call.time = {1000, 2000};
  const auto set = [&](Part part, Interval time) { call.parts.parts[static_cast<size_t>(part)] = time; };
  set(Part::kDecode, {1000, 1100});
  set(Part::kQueue, {1090, 1200});  // a little early
  set(Part::kDevice, {1200, 1900});
  set(Part::kEncode, {1950, 2010});  // and a little late
  call.parts.device.Set("CPU:0");
  return call;
}

RunOfDevice DeviceRun(const char* device, const char* kernel, Interval time) {
  RunOfDevice run;
  run.time = time;
  run.launches = 2;
  run.device.Set(device);
  run.kernel.Set(kernel);
  return run;
}

std::vector<Span> SpansOf(const CallRecord& call, const std::vector<RunOfDevice>& runs,
                          const CompileStages* stages = nullptr) {
  v1::OtlpTraces::ScopeSpans spans;
  AppendSpans(call, stages, runs, Names(), spans);
  return {spans.spans().begin(), spans.spans().end()};
}

std::map<std::string, std::string> AttributesOf(const Span& span) {
  std::map<std::string, std::string> attributes;
  for (const auto& attribute : span.attributes()) {
    const auto& value = attribute.value();
    attributes[attribute.key()] = value.value_case() == v1::OtlpTraces::AnyValue::kIntValue
                                      ? std::to_string(value.int_value())
                                      : value.string_value();
  }
  return attributes;
}

TEST(Spans, ACallHasItsPartsWithin) {
  const std::vector<Span> spans = SpansOf(Call(), {});
  ASSERT_EQ(spans.size(), 5);
  const Span& call = spans[0];
  EXPECT_EQ(call.name(), "kiln.v1.KernelService/Execute");
  EXPECT_EQ(call.kind(), Span::SPAN_KIND_SERVER);
  EXPECT_EQ(call.trace_id(), std::string(16, 1));
  EXPECT_EQ(call.span_id(), std::string(8, 2));
  EXPECT_EQ(call.parent_span_id(), "");
  EXPECT_EQ(call.status().code(), v1::OtlpTraces::Status::STATUS_CODE_UNSET);
  EXPECT_EQ(AttributesOf(call), (std::map<std::string, std::string>({{"kiln.device", "CPU:0"},
                                                                     {"kiln.tenant", "alice"},
                                                                     {"rpc.grpc.status_code", "0"},
                                                                     {"rpc.method", "Execute"},
                                                                     {"rpc.service", "kiln.v1.KernelService"},
                                                                     {"rpc.system", "grpc"}})));
  std::set<std::string> ids;
  uint64_t before = 1000;
  for (const Span& span : spans) {
    EXPECT_TRUE(ids.insert(span.span_id()).second);
    EXPECT_EQ(span.span_id().size(), 8);
    if (&span == &call) continue;
    EXPECT_EQ(span.trace_id(), call.trace_id());
    EXPECT_EQ(span.parent_span_id(), call.span_id());
    EXPECT_GE(span.start_time_unix_nano(), before);
    EXPECT_GE(span.end_time_unix_nano(), span.start_time_unix_nano());
    before = span.end_time_unix_nano();
  }
  EXPECT_EQ(spans[2].name(), "queue");
  EXPECT_EQ(spans[2].start_time_unix_nano(), 1100);
  EXPECT_EQ(spans[4].end_time_unix_nano(), 2000);
}

TEST(Spans, RunsAreTheDevicePartsAndKernelsTheirRuns) {
  const std::vector<Span> spans =
      SpansOf(Call(), {DeviceRun("CPU:0", "add", {1100, 1300}), DeviceRun("CPU:1", "mul", {1300, 1400}),
                       DeviceRun("CPU:0", "", {1150, 1500}), DeviceRun("CPU:1", "", {1290, 1950}),
                       DeviceRun("CPU:0", "late", {1500, 1600})});
  ASSERT_EQ(spans.size(), 10);
  std::map<std::string, const Span*> named;
  for (const Span& span : spans) {
    const std::string device = AttributesOf(span)["kiln.device"];
    named[span.name() == "run" ? "run " + device : span.name()] = &span;
  }
  const Span& part = *named["device"];
  EXPECT_EQ(named["run CPU:0"]->parent_span_id(), part.span_id());
  EXPECT_EQ(named["run CPU:1"]->parent_span_id(), part.span_id());
  EXPECT_EQ(named["add"]->parent_span_id(), named["run CPU:0"]->span_id());
  EXPECT_EQ(named["mul"]->parent_span_id(), named["run CPU:1"]->span_id());
  EXPECT_EQ(named["late"]->parent_span_id(), part.span_id()) << "its run is not there";
  EXPECT_EQ(named["run CPU:0"]->start_time_unix_nano(), 1200) << "as its part";
  EXPECT_EQ(named["add"]->start_time_unix_nano(), 1200) << "as its run";
  EXPECT_EQ(named["add"]->end_time_unix_nano(), 1300);
  EXPECT_EQ(named["run CPU:1"]->end_time_unix_nano(), 1900);
  EXPECT_EQ(AttributesOf(*named["run CPU:0"])["kiln.launches"], "2");
}

TEST(Spans, StagesAreChildrenOfTheCompilation) {
  CallRecord call = Call();
  call.parts.parts[static_cast<size_t>(Part::kCompile)] = {1050, 1090};  // decode ends at 1100
  EXPECT_EQ(SpansOf(call, {}).size(), 6);
  call.parts.parts[static_cast<size_t>(Part::kCompile)] = {1100, 1180};
  call.parts.parts[static_cast<size_t>(Part::kQueue)] = {1180, 1200};
  CompileStages stages;
  stages.Add(CompileStage::kWait, absl::FromUnixNanos(1090), absl::FromUnixNanos(1120));
  stages.Add(CompileStage::kCode, absl::FromUnixNanos(1120), absl::FromUnixNanos(1190));
  stages.Fail();
  const std::vector<Span> spans = SpansOf(call, {}, &stages);
  ASSERT_EQ(spans.size(), 8);
  const Span &compile = spans[2], &wait = spans[3], &code = spans[4];
  EXPECT_EQ(compile.name(), "compile");
  EXPECT_EQ(wait.name(), "wait");
  EXPECT_EQ(wait.parent_span_id(), compile.span_id());
  EXPECT_EQ(wait.start_time_unix_nano(), 1100) << "as its parent";
  EXPECT_EQ(wait.end_time_unix_nano(), 1120);
  EXPECT_EQ(code.name(), "code");
  EXPECT_EQ(code.parent_span_id(), compile.span_id());
  EXPECT_EQ(code.end_time_unix_nano(), 1180) << "as its parent";
  EXPECT_EQ(AttributesOf(code)["kiln.failed"], "true");
  EXPECT_EQ(wait.attributes_size(), 0);
  EXPECT_EQ(spans[5].name(), "queue");
  EXPECT_EQ(spans[5].parent_span_id(), spans[0].span_id());
}

TEST(Spans, CallersAreParentsAndStreamsAreParentsOrLinks) {
  CallRecord call = Call();
  call.trace.parent.fill(9);
  call.trace.remote = true;
  Span span = SpansOf(call, {})[0];
  EXPECT_EQ(span.parent_span_id(), std::string(8, 9));
  EXPECT_EQ(span.flags(), 0x301);

  CallRecord command = Call();
  command.command = 9;
  command.method = 1;
  command.trace.parent.fill(9);
  span = SpansOf(command, {})[0];
  EXPECT_EQ(span.name(), "kiln.v1.KernelService/Submit execute");
  EXPECT_EQ(span.kind(), Span::SPAN_KIND_INTERNAL);
  EXPECT_EQ(span.parent_span_id(), std::string(8, 9));
  EXPECT_EQ(span.flags(), 0x101);
  EXPECT_EQ(AttributesOf(span)["kiln.command"], "execute");
  EXPECT_EQ(span.links_size(), 0);

  command.trace.linked = true;
  span = SpansOf(command, {})[0];
  EXPECT_EQ(span.parent_span_id(), "");
  ASSERT_EQ(span.links_size(), 1);
  EXPECT_EQ(span.links(0).span_id(), std::string(8, 9));
  const TraceId stream = TraceOf(command.trace.parent);
  EXPECT_EQ(span.links(0).trace_id(), std::string(stream.begin(), stream.end()));
}

TEST(Spans, OurFaultsAreErrors) {
  CallRecord call = Call();
  const auto code = [&](uint16_t status) {
    call.status = status;
    return SpansOf(call, {})[0].status().code();
  };
  EXPECT_EQ(code(3), v1::OtlpTraces::Status::STATUS_CODE_UNSET);  // INVALID_ARGUMENT: the client's
  EXPECT_EQ(code(8), v1::OtlpTraces::Status::STATUS_CODE_UNSET);
  EXPECT_EQ(code(13), v1::OtlpTraces::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(SpansOf(call, {})[0].status().message(), "INTERNAL");
  EXPECT_EQ(code(999), v1::OtlpTraces::Status::STATUS_CODE_ERROR);
  call.time = {2000, 1000};  // a clock that was set back
  for (const Span& span : SpansOf(call, {})) EXPECT_LE(span.start_time_unix_nano(), span.end_time_unix_nano());
}

}  // namespace
}  // namespace kiln::server
