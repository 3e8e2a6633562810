// Schedules of products on four cores whose figures differ, by what a server there would have measured
// (runtime/drivers/cpu/core/measure_core.h).
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

// Granite Rapids: measured on an Emerald Rapids, whose core is nearly the same. The others: what their makers and those
// who time instructions publish, rounded as measure_core.h rounds.
struct Core {
  const char* name;
  const char* tuning;
};
constexpr Core kCores[] = {
    // 512 bits in two steps of 256: one FMA and one load a cycle, 32 bytes a cycle from a small L2 cache.
    {"znver4", R"pb(l1_bytes: 32768 l2_bytes: 1048576 l3_bytes: 33554432
                    core { vector_bytes: 64 fmas_per_cycle: 1 fma_latency: 4 loads_per_cycle: 1 l2_load_cycles: 2
                           l2_store_cycles: 3 far_bytes_per_cycle: 32 gather_cycles: 2 })pb"},
    // Twice of all that, and an L3 cache that is nearly as quick as others' L2.
    {"znver5", R"pb(l1_bytes: 49152 l2_bytes: 1048576 l3_bytes: 33554432
                    core { vector_bytes: 64 fmas_per_cycle: 2 fma_latency: 4 loads_per_cycle: 2 l2_load_cycles: 1.5
                           l2_store_cycles: 1.5 far_bytes_per_cycle: 32 gather_cycles: 1.5 })pb"},
    // Gathers are dear since they were made safe.
    {"icelake-server", R"pb(l1_bytes: 49152 l2_bytes: 1310720 l3_bytes: 62914560
                            core { vector_bytes: 64 fmas_per_cycle: 2 fma_latency: 4 loads_per_cycle: 2
                                   l2_load_cycles: 1.5 l2_store_cycles: 3 far_bytes_per_cycle: 8 gather_cycles: 6 })pb"},
    // Writes to a large L2 cache are dear, the L3 cache is far.
    {"graniterapids", R"pb(l1_bytes: 49152 l2_bytes: 2097152 l3_bytes: 452984832
                           core { vector_bytes: 64 fmas_per_cycle: 2 fma_latency: 4 loads_per_cycle: 2
                                  l2_load_cycles: 1.5 l2_store_cycles: 4 far_bytes_per_cycle: 8 gather_cycles: 1 })pb"},
};

v1::Target TargetOf(const Core& core) {
  v1::Target target;
  target.set_kind(v1::Target::CPU);
  target.set_triple("x86_64-unknown-linux-gnu");
  target.set_arch(core.name);
  for (const char* feature : {"+avx2", "+avx512bw", "+avx512dq", "+avx512f", "+avx512vl", "+fma"})
    target.add_features(feature);
  v1::Target::Tuning& tuning = *target.mutable_tuning();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(core.tuning, &tuning)) << core.name;
  tuning.set_vector_bytes(64);
  tuning.set_vector_registers(32);
  tuning.set_cores(2);
  return target;
}

v1::Graph Sgemm(int64_t n) {
  client::Graph graph;
  const Tensor a = graph.Param(0, v1::FLOAT32, {n, n}), b = graph.Param(1, v1::FLOAT32, {n, n});
  graph.Output(client::Matmul(a, b));
  return graph.Build().value();
}

// One image of square planes, with padding that keeps their size.
v1::Graph Convolution(int64_t channels, int64_t made, int64_t plane, int64_t filter) {
  client::Graph graph;
  const Tensor image = graph.Param(0, v1::FLOAT32, {1, channels, plane, plane});
  const Tensor weights = graph.Param(1, v1::FLOAT32, {made, channels, filter, filter});
  graph.Output(client::Conv2d(image, weights, Tensor(), {.padding = {filter / 2, filter / 2}}));
  return graph.Build().value();
}

std::string ScheduleOf(const v1::Graph& graph, const v1::Target& target, bool constant) {
  compiler::Options options;
  if (constant) options.constants = {1};
  const auto made = compiler::Compile(graph, target, options);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return "";
  std::string text;
  for (const auto& kernel : made->kernels()) absl::StrAppend(&text, text.empty() ? "" : " | ", kernel.schedule());
  return text;
}

TEST(FourCores, Print) {
  for (const Core& core : kCores) {
    const v1::Target target = TargetOf(core);
    for (bool constant : {false, true}) {
      std::printf("%s %d\n", core.name, constant);
      std::printf("  sgemm 1024: %s\n", ScheduleOf(Sgemm(1024), target, constant).c_str());
      for (auto [c, k, p, f] : std::vector<std::array<int64_t, 4>>{{64, 64, 56, 3}, {128,128,28,3}, {256,256,14,3}, {512,512,7,3}, {256, 64, 56, 1}, {512,128,28,1}, {256,1024,14,1},{512,2048,7,1}})
        std::printf("  conv %ldx%ld %ld->%ld @%ld: %s\n", f, f, c, k, p, ScheduleOf(Convolution(c, k, p, f), target, constant).c_str());
    }
  }
}

}  // namespace
}  // namespace kiln::testing
