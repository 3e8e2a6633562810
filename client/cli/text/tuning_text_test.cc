#include "client/cli/text/tuning_text.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace kiln::cli {
namespace {

v1::ListDevicesResponse Devices(const std::string& text) {
  v1::ListDevicesResponse response;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &response));
  return response;
}

TEST(TuningText, HasSizesOfAllAndFiguresOfCoresThatWereMeasured) {
  const auto response = Devices(R"pb(
    devices {
      name: "CPU:0"
      target {
        tuning {
          vector_bytes: 64
          vector_registers: 32
          cores: 2
          l1_bytes: 49152
          l2_bytes: 2097152
          core {
            vector_bytes: 64
            fmas_per_cycle: 2
            fma_latency: 4
            loads_per_cycle: 2
            l2_load_cycles: 1.5
            l2_store_cycles: 4
            far_bytes_per_cycle: 8
          }
        }
      }
    }
    devices {
      name: "CUDA:0"
      target { tuning { cores: 132 lanes: 32 shared_bytes: 233472 } }
    })pb");
  EXPECT_EQ(TuningText(response), R"(
device  cores  vector bytes  registers  L1      L2     L3  lanes  shared
CPU:0       2            64         32  48 KiB  2 MiB  -   -      -
CUDA:0    132  -             -          -       -      -      32  228 KiB

device  FMAs a cycle  FMA latency  loads a cycle  L2 load  L2 store  far bytes a cycle  gathered element
CPU:0              2            4              2      1.5         4                  8  -
in the core's cycles; FMAs, loads and stores are of whole vectors, far is beyond the L2 cache

)");
}

TEST(TuningText, SaysThatNothingWasMeasured) {
  EXPECT_EQ(TuningText(Devices(R"pb(devices {
                                      name: "CPU:0"
                                      target { tuning { cores: 2 } }
                                    })pb")),
            R"(
device  cores  vector bytes  registers  L1  L2  L3  lanes  shared
CPU:0       2  -             -          -   -   -   -      -

no core was measured: schedules are those of a usual one

)");
}

}  // namespace
}  // namespace kiln::cli
