#include "client/cli/text/chrome_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

using google::protobuf::Struct;

constexpr int64_t kBegin = 1'700'000'000'000'000'000;

v1::TraceResponse::Call& AddCall(v1::TraceResponse& trace, int64_t begin, int64_t end) {
  auto& call = *trace.add_calls();
  call.set_trace_id(std::string(15, '\0') + "\x0f");
  call.set_span_id("12345678");
  call.set_method("KernelService.Execute");
  call.set_begin_ns(kBegin + begin);
  call.set_end_ns(kBegin + end);
  return call;
}

void AddPart(v1::TraceResponse::Call& call, const char* name, int64_t begin, int64_t end) {
  auto& part = *call.add_parts();
  part.set_name(name);
  part.set_begin_ns(kBegin + begin);
  part.set_end_ns(kBegin + end);
}

void AddRun(v1::TraceResponse& trace, const char* device, const std::string& kernel, int64_t begin, int64_t end) {
  auto& run = *trace.add_runs();
  run.set_device(device);
  run.set_kernel(kernel);
  run.set_begin_ns(kBegin + begin);
  run.set_end_ns(kBegin + end);
  run.set_launches(1);
}

// As JSON that is valid: its events but for names of lines, "line name begin+length" each.
struct Drawn {
  std::vector<std::string> events;
  std::map<std::string, std::string> lines;
};
Drawn Draw(const v1::TraceResponse& trace) {
  Struct root;
  const auto parsed = google::protobuf::util::JsonStringToMessage(ChromeTrace(trace), &root);
  EXPECT_TRUE(parsed.ok()) << parsed.ToString();
  Drawn drawn;
  for (const auto& value : root.fields().at("traceEvents").list_value().values()) {
    const auto& event = value.struct_value().fields();
    const auto number = [&](const char* field) { return event.at(field).number_value(); };
    const std::string line = std::to_string(int(number("pid"))) + "." + std::to_string(int(number("tid")));
    const std::string& name = event.at("name").string_value();
    if (event.at("ph").string_value() == "M") {
      drawn.lines[name == "process_name" ? "group " + line : line] =
          event.at("args").struct_value().fields().at("name").string_value();
      continue;
    }
    drawn.events.push_back(line + " " + name + " " + std::to_string(int64_t(number("ts") * 1000 + 0.5)) + "+" +
                           std::to_string(int64_t(number("dur") * 1000 + 0.5)));
  }
  return drawn;
}

TEST(ChromeTrace, OfNothingIsValid) { EXPECT_EQ(Draw({}).events, std::vector<std::string>()); }

TEST(ChromeTrace, CallsThatOverlapHaveLinesOfTheirOwn) {
  v1::TraceResponse trace;
  AddPart(AddCall(trace, 1000, 3000), "device", 1500, 2500);
  AddCall(trace, 2000, 4001);
  AddCall(trace, 3000, 5000);
  const Drawn drawn = Draw(trace);
  EXPECT_EQ(drawn.events,
            std::vector<std::string>({"1.1 KernelService.Execute 0+2000", "1.1 device 500+1000",
                                      "1.2 KernelService.Execute 1000+2001", "1.1 KernelService.Execute 2000+2000"}));
  EXPECT_EQ(drawn.lines.at("1.1"), "calls 1");
  EXPECT_EQ(drawn.lines.at("1.2"), "calls 2");
  EXPECT_EQ(drawn.lines.at("group 1.0"), "calls");
}

TEST(ChromeTrace, PartsLieWithinTheirCallAndBehindOneAnother) {
  v1::TraceResponse trace;
  auto& call = AddCall(trace, 1000, 3000);
  AddPart(call, "decode", 900, 1200);
  AddPart(call, "device", 1100, 2000);
  AddPart(call, "results", 1900, 3500);
  AddPart(call, "encode", 3500, 3600);
  EXPECT_EQ(Draw(trace).events, std::vector<std::string>({"1.1 KernelService.Execute 0+2000", "1.1 decode 0+200",
                                                          "1.1 device 200+800", "1.1 results 1000+1000"}));
}

TEST(ChromeTrace, StagesLieWithinTheCompilation) {
  v1::TraceResponse trace;
  auto& call = AddCall(trace, 1000, 3000);
  AddPart(call, "compile", 1100, 2000);
  AddPart(call, "device", 2000, 2500);
  const auto add = [&](const char* name, int64_t begin, int64_t end) {
    auto& stage = *call.add_stages();
    stage.set_name(name);
    stage.set_begin_ns(kBegin + begin);
    stage.set_end_ns(kBegin + end);
  };
  add("wait", 1000, 1200);
  add("code", 1200, 2200);
  call.mutable_stages(1)->set_failed(true);
  EXPECT_NE(ChromeTrace(trace).find("\"failed\":true"), std::string::npos);
  EXPECT_EQ(Draw(trace).events,
            std::vector<std::string>({"1.1 KernelService.Execute 0+2000", "1.1 compile 100+900", "1.1 wait 100+100",
                                      "1.1 code 200+800", "1.1 device 1000+500"}));
}

TEST(ChromeTrace, EachDeviceHasALineAndOneOfItsKernels) {
  v1::TraceResponse trace;
  AddRun(trace, "CPU:0", "say \"hi\"\\\n", 100, 200);
  AddRun(trace, "CPU:0", "", 100, 300);
  AddRun(trace, "CPU:1", "", 150, 350);
  AddRun(trace, "CPU:0", "", 290, 400);  // seems to begin before the last one's end
  const Drawn drawn = Draw(trace);
  EXPECT_EQ(drawn.events, std::vector<std::string>(
                              {"2.1 say \"hi\"\\\n 0+100", "2.2 run 0+200", "2.3 run 50+200", "2.2 run 200+100"}));
  EXPECT_EQ(drawn.lines.at("2.1"), "CPU:0 kernels");
  EXPECT_EQ(drawn.lines.at("2.2"), "CPU:0");
  EXPECT_EQ(drawn.lines.at("2.3"), "CPU:1");
}

}  // namespace
}  // namespace kiln::cli
