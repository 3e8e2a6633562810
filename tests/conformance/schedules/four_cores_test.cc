// Schedules of products on four cores whose figures differ, by what a server there would have measured
// (runtime/drivers/cpu/core/measure_core.h). Tiles are those that cores have in common; which operand is copied, how
// large the pieces of an image are and along what lanes lie is where they differ.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"

namespace kiln::testing {
namespace {

using client::Tensor;

// Granite Rapids: measured on an Emerald Rapids, whose core is nearly the same. The others: estimates by
// what is commonly known of them, rounded as measure_core.h rounds; nobody has measured them with it.
struct Core {
  const char* name;
  const char* tuning;
};
constexpr Core kCores[] = {
    // 512 bits in two steps of 256: one FMA and one load a cycle, 32 bytes a cycle from a small L2 cache.
    {"znver4", R"pb(l1_bytes: 32768
                    l2_bytes: 1048576
                    l3_bytes: 33554432
                    core {
                      vector_bytes: 64
                      fmas_per_cycle: 1
                      fma_latency: 4
                      loads_per_cycle: 1
                      l2_load_cycles: 2
                      l2_store_cycles: 3
                      far_bytes_per_cycle: 32
                      gather_cycles: 2
                    })pb"},
    // Twice of all that, and an L3 cache that is nearly as quick as others' L2.
    {"znver5", R"pb(l1_bytes: 49152
                    l2_bytes: 1048576
                    l3_bytes: 33554432
                    core {
                      vector_bytes: 64
                      fmas_per_cycle: 2
                      fma_latency: 4
                      loads_per_cycle: 2
                      l2_load_cycles: 1.5
                      l2_store_cycles: 1.5
                      far_bytes_per_cycle: 32
                      gather_cycles: 1.5
                    })pb"},
    // Gathers are dear since they were made safe.
    {"icelake-server", R"pb(l1_bytes: 49152
                            l2_bytes: 1310720
                            l3_bytes: 62914560
                            core {
                              vector_bytes: 64
                              fmas_per_cycle: 2
                              fma_latency: 4
                              loads_per_cycle: 2
                              l2_load_cycles: 1.5
                              l2_store_cycles: 3
                              far_bytes_per_cycle: 8
                              gather_cycles: 6
                            })pb"},
    // Writes to a large L2 cache are dear, the L3 cache is far.
    {"graniterapids", R"pb(l1_bytes: 49152
                           l2_bytes: 2097152
                           l3_bytes: 452984832
                           core {
                             vector_bytes: 64
                             fmas_per_cycle: 2
                             fma_latency: 4
                             loads_per_cycle: 2
                             l2_load_cycles: 1.5
                             l2_store_cycles: 4
                             far_bytes_per_cycle: 8
                             gather_cycles: 1
                           })pb"},
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

// `m` rows; b is square, and given by columns if it is `transposed`.
v1::Graph Product(int64_t m, int64_t n, bool transposed = false) {
  client::Graph graph;
  const Tensor a = graph.Param(0, v1::FLOAT32, {m, n}), b = graph.Param(1, v1::FLOAT32, {n, n});
  graph.Output(client::Matmul(a, transposed ? client::Transpose(b) : b));
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

std::string ScheduleOf(const v1::Graph& graph, const v1::Target& target) {
  const auto made = compiler::Compile(graph, target, compiler::Options());
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return "";
  EXPECT_EQ(made->kernels_size(), 1);
  return made->kernels(0).schedule();
}

TEST(FourCores, MultiplyLargeMatricesAlike) {
  // Eight rows of two vectors are 16 sums, which hide the latency of two FMAs a cycle twice; panels of b are copied, as
  // each of their vectors is read 128 times.
  for (const Core& core : kCores) {
    EXPECT_EQ(ScheduleOf(Product(1024, 1024), TargetOf(core)),
              "SPLIT(0, 8, UPCAST); SPLIT(1, 16, UPCAST, dim 2); SPLIT(1, 2, UPCAST, dim 1); SWAP(0, 1); LOCAL(0, 1); "
              "THREAD(0)")
        << core.name;
  }
}

TEST(FourCores, CopyOfImagesWhatTheirCachesHold) {
  for (const Core& core : kCores) {
    const v1::Target target = TargetOf(core);
    const bool zen4 = core.name == std::string("znver4"), large_l2 = target.tuning().l2_bytes() > (3 << 19);
    // 14 pixels of two vectors of channels, boxes of 14 rows of the image and all weights of the panel copied.
    EXPECT_EQ(ScheduleOf(Convolution(64, 64, 56, 3), target),
              "SPLIT(2, 14, UPCAST); SPLIT(0, 16, UPCAST, dim 2); SPLIT(0, 2, UPCAST, dim 1); SPLIT(1, 7, LOOP); "
              "SWAP(1, 0); SPLIT(1, 2, LOOP); LOCAL(1, 0); LOCAL(2, 1); FUSE(0); THREAD(0)")
        << core.name;
    // The image of 7 x 7 is copied for each share of the panels. Where a core has half the FMAs, the copy is half as
    // much of the work, and more shares leave the two cores more even.
    EXPECT_EQ(ScheduleOf(Convolution(512, 512, 7, 3), target),
              std::string("SPLIT(2, 7, UPCAST); SPLIT(0, 16, UPCAST, dim 2); SPLIT(0, 2, UPCAST, dim 1); ") +
                  (zen4 ? "SPLIT(0, 2, LOOP)" : "SPLIT(0, 8, LOOP)") + "; LOCAL(0, 0); LOCAL(1, 1); THREAD(0)")
        << core.name;
    // An image of 1.6 MB. In an L2 cache of 2 MiB pixels are at hand in any order: lanes lie along channels. In a
    // smaller one they would come from beyond it: lanes lie along pixels, which are read once, in order.
    EXPECT_EQ(ScheduleOf(Convolution(512, 128, 28, 1), target),
              large_l2 ? "SPLIT(1, 14, UPCAST); SPLIT(0, 16, UPCAST, dim 2); SPLIT(0, 2, UPCAST, dim 1); "
                         "SPLIT(1, 28, LOOP); SWAP(1, 0); LOCAL(1, 1); FUSE(0); THREAD(0)"
                       : "PADTO(1, 32); SPLIT(0, 8, UPCAST); SPLIT(1, 16, UPCAST, dim 2); SPLIT(1, 2, UPCAST, dim 1); "
                         "SWAP(0, 1); LOCAL(0, 0); THREAD(0)")
        << core.name;
  }
}

// With caches of one size for all, so that figures alone decide: how many rows there must be before it is worth
// copying the panels of a matrix of 512 x 512. Zen 5 copies for half of what others pay; Zen 4 multiplies half as fast,
// so that a copy is less of the whole; Intel's cores write to the L2 cache slowly, Granite Rapids slowest.
TEST(FourCores, CopyThePanelsOfFewRowsWhereTheyWriteToTheL2CacheFast) {
  struct Row {
    int64_t rows;
    bool transposed;
    const char* copied_by;
  };
  constexpr Row kRows[] = {
      {4, false, ""},
      {8, false, "znver4 znver5 "},
      {10, false, "znver4 znver5 icelake-server "},
      {12, false, "znver4 znver5 icelake-server graniterapids "},
      // Transposed while it is copied, or else read with lanes along the sum. Zen 4 takes as long for the product as
      // for two copies more than Zen 5.
      {8, true, ""},
      {10, true, "znver5 "},
      {14, true, "znver4 znver5 icelake-server "},
      {20, true, "znver4 znver5 icelake-server graniterapids "},
  };
  for (const Row& row : kRows) {
    std::string copied_by;
    for (const Core& core : kCores) {
      v1::Target target = TargetOf(core);
      target.mutable_tuning()->set_l1_bytes(48 << 10);
      target.mutable_tuning()->set_l2_bytes(1 << 20);
      const std::string schedule = ScheduleOf(Product(row.rows, 512, row.transposed), target);
      if (absl::StrContains(schedule, "LOCAL")) absl::StrAppend(&copied_by, core.name, " ");
    }
    EXPECT_EQ(copied_by, row.copied_by) << row.rows << " rows" << (row.transposed ? ", transposed" : "");
  }
}

TEST(FourCores, TheLastIsTheUsualOne) {
  const v1::Target target = TargetOf(kCores[3]);
  v1::Target unknown = target;
  unknown.mutable_tuning()->clear_core();
  for (const v1::Graph& graph :
       {Product(10, 512), Product(16, 512, true), Product(512, 512), Convolution(64, 64, 28, 3),
        Convolution(256, 256, 14, 3), Convolution(256, 64, 28, 1)}) {
    EXPECT_EQ(ScheduleOf(graph, unknown), ScheduleOf(graph, target));
  }
}

}  // namespace
}  // namespace kiln::testing
