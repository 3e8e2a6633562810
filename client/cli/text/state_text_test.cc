#include "client/cli/text/json_text.h"
#include "client/cli/text/state_text.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::StateResponse StateOf(const std::string& text) {
  v1::StateResponse state;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &state));
  return state;
}

v1::StateResponse Some() {
  return StateOf(R"pb(
    whole: true
    server { version: "kiln-1" up_seconds: 3725 }
    devices {
      name: "CPU:0"
      up: true
      memory_in_use_bytes: 1500
      memory_limit_bytes: 8000000000
      waiting: 3
      in_flight: 2
      predicted_wait_seconds: 0.0021
      busy_second: 0.97
      busy_minute: 0.8
      running { tenant: "alice" graph_hash: "00112233445566778899" seconds: 0.0012 devices: 1 }
      running { tenant: "bob" }
    }
    devices { name: "CUDA:0" fault: "gone\n\x1b[31m" }
    tenants {
      name: "alice"
      weight: 3
      waiting: 1
      refusals: 4
      shares {
        device: "CPU:0"
        busy_second: 0.7
        busy_minute: 0.6
        share_second: 0.5
        share_minute: 0.75
        entitled_second: 0.75
        entitled_minute: 0.75
        busy_seconds_total: 12
        waiting: 1
      }
      memory { device: "CPU:0" kind: "buffers" bytes: 2000 }
      memory { kind: "disk" bytes: 999999999 }
    }
    tenants {
      name: "bob"
      weight: 1
      waiting: 2
      shares { device: "CPU:0" busy_minute: 0.1 waiting: 2 }
    }
    sessions { id: "a1b2c3d4" tenant: "alice" host: "ipv4:10.0.0.1" buffers: 7 bytes: 2000 lease_left_seconds: 8 }
    sessions { id: "ffffffff" tenant: "bob" connections: 1 }
    sessions_left_out: 2
    streams { session: "ffffffff" tenant: "bob" connected: true accepted: 10 pending: 1 under_way: 4 }
    compiler {
      threads: 4
      waiting: 5
      running { tenant: "alice" seconds: 2 }
    }
    programs {
      graph_hash: "00112233445566778899"
      tenant: "alice"
      device: "CPU:0"
      runs: 10
      device_seconds: 0.02
      flops: 4000000000
      bytes_read: 3000000
      bytes_written: 1000000
      bytes: 4096
      idle_seconds: 3
      hits: 9
    }
    programs { graph_hash: "ffee" device: "CPU:0" bytes: 8192 }
    programs_left_out: 7
    slow_after_seconds: 1
    slow_calls {
      method: "KernelService.Execute"
      tenant: "bob"
      status: "OK"
      seconds: 2
      ago_seconds: 4
      parts { name: "turn" seconds: 1.9 }
      parts { name: "device" seconds: 0.0001 }
    }
  )pb");
}

TEST(StateText, ABarHasAMarkWhereItShouldEnd) {
  EXPECT_EQ(BarText(0.5, 0, 4), "██··");
  EXPECT_EQ(BarText(0.5, 0.75, 4), "██|·");
  EXPECT_EQ(BarText(7, 1, 4), "███|");
  EXPECT_EQ(BarText(-1, 0.001, 4), "|···");
}

TEST(StateText, DevicesSayWhoIsOnThem) {
  const std::string text = DevicesText(Some());
  EXPECT_THAT(text, HasSubstr("97.0%"));
  EXPECT_THAT(text, HasSubstr("8 GB"));
  EXPECT_THAT(text, HasSubstr("2.1 ms"));
  EXPECT_THAT(text, HasSubstr("alice 001122334455 for 1.2 ms and 1 behind"));
  // A terminal shows what is said, and obeys none of it.
  EXPECT_THAT(text, HasSubstr("lost: gone??[31m"));
}

TEST(StateText, TenantsHaveSharesAndOrders) {
  const std::string by_time = TenantsText(Some(), StateOrder::kTime),
                    waiting = TenantsText(Some(), StateOrder::kWaiting);
  EXPECT_LT(by_time.find("alice"), by_time.find("bob"));
  EXPECT_GT(waiting.find("alice"), waiting.find("bob"));
  EXPECT_THAT(by_time, HasSubstr("██████████····|·····"));
  EXPECT_THAT(by_time, HasSubstr("50.0%"));
  EXPECT_THAT(by_time, HasSubstr("2 kB"));  // without what is on disk
}

TEST(StateText, SessionsAndStreams) {
  EXPECT_EQ(SessionsText(Some()),
            "session   tenant  from           buffers  memory  lease  streams\n"
            "a1b2c3d4  alice   ipv4:10.0.0.1        7    2 kB    8 s        0\n"
            "ffffffff  bob     -                    0     0 B  kept         1\n"
            "… and 2 more sessions\n");
  EXPECT_THAT(StreamsText(Some()), HasSubstr("there"));
}

TEST(StateText, ProgramsHaveRates) {
  const std::string text = ProgramsText(Some(), StateOrder::kTime);
  EXPECT_THAT(text, HasSubstr("2e+03"));  // GFLOP/s
  EXPECT_THAT(text, HasSubstr("3 s ago"));
  EXPECT_THAT(text, HasSubstr("never"));
  EXPECT_THAT(text, HasSubstr("… and 7 more programs"));
  const std::string by_size = ProgramsText(Some(), StateOrder::kMemory);
  EXPECT_LT(by_size.find("ffee"), by_size.find("0011"));
}

TEST(StateText, SlowCallsSayWhereTheTimeWent) {
  const std::string text = SlowCallsText(Some());
  EXPECT_THAT(text, HasSubstr("turn 1.9 s"));
  EXPECT_THAT(text, Not(HasSubstr("device 100")));  // too little to matter
}

TEST(StateText, TopFitsTheTerminal) {
  const std::string all = TopText(Some(), StateOrder::kTime, 0, 0);
  EXPECT_THAT(all, HasSubstr("kilnd kiln-1, up 1h 2m, all of it: 4 sessions, 1 streams; compiling 1 of 4 at once"));
  EXPECT_THAT(all, HasSubstr("more programs"));
  const std::string small = TopText(Some(), StateOrder::kTime, 6, 20);
  const std::vector<std::string> lines = absl::StrSplit(small, '\n');
  ASSERT_EQ(lines.size(), 7u);  // the last has nothing
  EXPECT_EQ(lines[0], "kilnd kiln-1, up 1h ");
  EXPECT_EQ(lines[6], "");
}

TEST(StateText, WhoSeesItsOwnIsToldSo) {
  v1::StateResponse state = Some();
  state.set_whole(false);
  state.set_tenant("alice");
  const std::string text = TopText(state, StateOrder::kTime, 0, 0);
  EXPECT_THAT(text, HasSubstr("what is alice's"));
  EXPECT_THAT(text, Not(HasSubstr("next waits")));
  EXPECT_THAT(text, HasSubstr("70.0%"));  // of the device, not of what was used
}

TEST(StateText, JsonIsTheMessage) {
  const std::string json = MessageJson(Some());
  v1::StateResponse back;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &back).ok());
  EXPECT_EQ(back.SerializeAsString(), Some().SerializeAsString());
  EXPECT_THAT(json, HasSubstr("\"busy_seconds_total\": 12"));
  EXPECT_THAT(json, HasSubstr("\"history_left_out\": 0"));
  EXPECT_THAT(json, HasSubstr("\\u001b"));  // as an escape
}

}  // namespace
}  // namespace kiln::cli
