// The conformance suites on the GPUs of this machine: what compiled_vs_interp_test and compiled_programs_test ask
// of the CPU; products and convolutions in large tiles, against the CPU's; programs that run again and again; copies
// and collectives. Skipped where there is no card. tests/hal is linked in, too.
//
// What is wrong does not end a test, so that one run on a card tells all; but where a card is lost, no more is asked
// of it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/graph/graph_text.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "compiler/interp/scalar.h"
#include "runtime/collective/collective.h"
#include "runtime/collective/copy_between.h"
#include "runtime/collective/meeting.h"
#include "runtime/collective/thresholds.h"
#include "runtime/exec/loaded_executable.h"
#include "runtime/hal/device.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/gpu/cards.h"
#include "tests/gpu/tile_cases.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using compiler::HostTensor;
using runtime::hal::BufferSlice;
using runtime::hal::Device;
namespace collective = runtime::collective;

class GpuConformance : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cards_ = new Cards(FindCards()); }
  static void TearDownTestSuite() {
    delete cards_;
    cards_ = nullptr;
  }
  void SetUp() override {
    if (cards_->engines.empty()) GTEST_SKIP() << "there is no GPU:\n" << cards_->absent;
  }

  // Calls `check` with a card and a case: of all cards each case, but of none that is lost.
  template <typename Cases, typename Check>
  static void OnEachCard(const Cases& cases, Check check) {
    for (const auto& engine : cards_->engines) {
      SCOPED_TRACE(engine->device().name());
      for (const auto& test : cases) {
        SCOPED_TRACE(test.name);
        check(*engine, test);
        const absl::Status health = engine->device().health();
        EXPECT_TRUE(health.ok()) << "the card is lost, and has none of the cases that follow: " << health;
        if (!health.ok()) break;
      }
    }
  }

  // Each fourth, from that one on.
  static std::vector<Case> Quarter(std::vector<Case> all, size_t first) {
    std::vector<Case> quarter;
    for (size_t i = first; i < all.size(); i += 4) quarter.push_back(std::move(all[i]));
    return quarter;
  }

  static void CheckGraphs(const std::vector<Case>& cases) {
    OnEachCard(cases, [](DeviceEngine& engine, const Case& test) {
      const auto want = RunInterpreted(test.graph, test.arguments);
      ASSERT_TRUE(want.ok()) << want.status();
      const auto got = engine.Run(test.graph, test.arguments, ExactOptions());
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->results.size(), want->results.size());
      for (size_t i = 0; i < want->results.size(); ++i)
        EXPECT_EQ(CompareTensors(got->results[i], want->results[i], test.outputs[i].tolerance), "")
            << test.outputs[i].name;
    });
  }

  static void CheckPrograms(const std::vector<ProgramCase>& cases) {
    OnEachCard(cases, [](DeviceEngine& engine, const ProgramCase& test) {
      auto got = engine.Run(test.graph, test.arguments, ExactOptions());
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << PrintGraph(test.graph);
      compiler::InterpResult want;
      want.written = test.expected;
      // Storage of several axes is one row of elements to a compiled kernel.
      for (auto& [slot, tensor] : got->written) {
        const auto expected = want.written.find(slot);
        if (expected != want.written.end()) tensor.shape = expected->second.shape;
      }
      EXPECT_EQ(CompareOutcomes(*got, want, test.tolerance), "") << PrintGraph(test.graph);
    });
  }

  static inline Cards* cards_ = nullptr;
};

TEST_F(GpuConformance, ElementwiseOpsAndCasts) { CheckGraphs(ScalarCases()); }
TEST_F(GpuConformance, MovementAndReduce) { CheckGraphs(TensorCases()); }
// By quarters: gpu.sh runs tests beside each other, and this is the longest.
TEST_F(GpuConformance, ElementwiseOpsOnADozenShapes0) { CheckGraphs(Quarter(BroadcastCases(), 0)); }
TEST_F(GpuConformance, ElementwiseOpsOnADozenShapes1) { CheckGraphs(Quarter(BroadcastCases(), 1)); }
TEST_F(GpuConformance, ElementwiseOpsOnADozenShapes2) { CheckGraphs(Quarter(BroadcastCases(), 2)); }
TEST_F(GpuConformance, ElementwiseOpsOnADozenShapes3) { CheckGraphs(Quarter(BroadcastCases(), 3)); }
TEST_F(GpuConformance, Programs) { CheckPrograms(ProgramCases()); }
TEST_F(GpuConformance, GraphsOfOneKernel) { CheckPrograms(KernelCases()); }

struct Built {
  v1::Graph graph;
  compiler::HostTensors arguments;
};

Built BuiltOf(const TileCase& test, v1::DType dtype) {
  Made made;
  made.graph.Output(test.product(made, dtype));
  return {made.graph.Build().value(), std::move(made.arguments)};
}

compiler::Options OptionsOf(const TileCase& test) {
  compiler::Options options;
  options.fast_math = test.fast_math;
  return options;
}

// What float32 gives, in the other's dtype: exact but for that rounding, which is the card's, too.
HostTensor Rounded(const HostTensor& from, compiler::DType dtype) {
  HostTensor to{dtype, from.shape,
                std::string(from.bytes.size() / 4 * static_cast<size_t>(compiler::ItemSize(dtype)), 0)};
  for (size_t i = 0; i < from.bytes.size() / 4; ++i) {
    const uint64_t bits = compiler::LoadElement(from.dtype, &from.bytes[i * 4]);
    compiler::StoreElement(dtype, compiler::EvalScalar(compiler::Op::CAST, from.dtype, dtype, {bits}),
                           &to.bytes[i * static_cast<size_t>(compiler::ItemSize(dtype))]);
  }
  return to;
}

TEST_F(GpuConformance, LargeTiles) {
  CpuEngine host;
  OnEachCard(TileCases(), [&](DeviceEngine& engine, const TileCase& test) {
    const Built on_host = BuiltOf(test, v1::FLOAT32), on_card = BuiltOf(test, test.dtype);
    const auto want = host.Run(on_host.graph, on_host.arguments, ExactOptions());
    ASSERT_TRUE(want.ok()) << want.status();
    const auto compiled = compiler::Compile(on_card.graph, engine.device().target(), OptionsOf(test));
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    for (const auto& kernel : compiled->kernels()) std::printf("%s: %s\n", test.name, kernel.schedule().c_str());
    std::fflush(stdout);
    const auto program = engine.Load(*compiled);
    ASSERT_TRUE(program.ok()) << program.status();
    const auto got = engine.RunLoaded(*program, on_card.arguments);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(CompareTensors(got->results[0], Rounded(want->results[0], got->results[0].dtype), {.zero_signs = false}),
              "");
  });
}

// Needs no card: on one as large as Hopper's, all of them are tiles.
TEST(TileCases, AreTilesOf132Cores) {
  for (const TileCase& test : TileCases()) {
    const auto compiled = compiler::Compile(BuiltOf(test, test.dtype).graph, TargetOf("sm_90a", 132), OptionsOf(test));
    ASSERT_TRUE(compiled.ok()) << test.name << ": " << compiled.status();
    ASSERT_EQ(compiled->kernels_size(), 1) << test.name;
    EXPECT_TRUE(absl::StrContains(compiled->kernels(0).schedule(), "TC("))
        << test.name << ": " << compiled->kernels(0).schedule();
    std::printf("%s: %s\n", test.name, compiled->kernels(0).schedule().c_str());
  }
}

// The second run with the same buffers makes a graph of the vendor's library of the program, and the others launch
// that: each sees what lies in the buffers then.
TEST_F(GpuConformance, ProgramsThatBecomeGraphs) {
  constexpr int64_t kSize = 5000;
  client::Graph graph;
  client::Tensor x = graph.Param(0, v1::INT32, {kSize});
  for (int i = 1; i <= 3; ++i) x = client::Contiguous(x * int64_t{3} + int64_t{i});
  graph.Output(x);
  const v1::Graph message = graph.Build().value();
  for (const auto& engine : cards_->engines) {
    SCOPED_TRACE(engine->device().name());
    const auto program = engine->Load(message, {});
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ((*program)->plan().steps.size(), 3u);
    compiler::HostTensors arguments = {{0, Numbers(v1::INT32, {kSize}, 0)}};
    const auto placed = engine->Place(*program, arguments);
    ASSERT_TRUE(placed.ok()) << placed.status();
    const BufferSlice& in = placed->parameters[0];
    const BufferSlice& out = placed->results[0];
    for (int run = 0; run < 5; ++run) {
      arguments[0] = Numbers(v1::INT32, {kSize}, run);
      ASSERT_EQ(engine->device().Store(arguments[0].bytes.data(), in.bytes, in.device_data()), absl::OkStatus());
      const auto ran = engine->RunPlaced(*placed, run == 4 ? 10 : 1);
      ASSERT_TRUE(ran.ok()) << ran.status();
      HostTensor got{compiler::DType::kInt32, {kSize}, std::string(out.bytes, 0)};
      ASSERT_EQ(engine->device().Load(out.device_data(), out.bytes, got.bytes.data()), absl::OkStatus());
      const auto want = RunInterpreted(message, arguments);
      ASSERT_TRUE(want.ok()) << want.status();
      EXPECT_EQ(CompareTensors(got, want->results[0], {}), "") << "run " << run;
    }
  }
}

// All cards and the host's CPU.
class GpuTogether : public GpuConformance {
 protected:
  // All devices, or, where there are two or more of them, the cards alone.
  std::vector<Device*> Devices(bool cards_alone) {
    std::vector<Device*> devices;
    for (const auto& engine : cards_->engines) devices.push_back(&engine->device());
    if (!cards_alone || devices.size() == 1) devices.push_back(&host_.device());
    return devices;
  }
  // Multiples of `by`, from `first` on, on that device.
  static BufferSlice Counting(Device* device, uint64_t count, int32_t by, int32_t first) {
    const std::string bytes = BytesOf(count, by, first);
    BufferSlice slice =
        BufferSlice::Whole(device->allocator().Allocate(bytes.size(), runtime::hal::MemoryUse::kClient).value());
    EXPECT_EQ(device->Store(bytes.data(), bytes.size(), slice.device_data()), absl::OkStatus());
    return slice;
  }
  static std::string BytesOf(uint64_t count, int32_t by, int32_t first) {
    std::string bytes(count * sizeof(int32_t), 0);
    for (uint64_t i = 0; i < count; ++i) {
      const int32_t number = first + by * static_cast<int32_t>(i);
      std::memcpy(&bytes[i * sizeof number], &number, sizeof number);
    }
    return bytes;
  }
  static std::string Read(Device* device, const BufferSlice& slice) {
    std::string bytes(slice.bytes, 0);
    EXPECT_EQ(device->Load(slice.device_data(), slice.bytes, bytes.data()), absl::OkStatus());
    return bytes;
  }

  static constexpr uint64_t kCount = 1'500'003;
  CpuEngine host_{1};
  collective::Meetings meetings_;
  collective::Thresholds thresholds_{"", ""};
  collective::Collectives collectives_{&meetings_, &thresholds_, absl::Seconds(30)};
};

TEST_F(GpuTogether, CopiesBetweenEachTwo) {
  const std::vector<Device*> devices = Devices(false);
  int32_t first = 0;
  for (Device* from : devices) {
    for (Device* to : devices) {
      if (from == to) continue;
      SCOPED_TRACE(absl::StrCat(from->name(), " to ", to->name()));
      const BufferSlice source = Counting(from, kCount, 3, ++first), target = Counting(to, kCount, 0, 0);
      absl::Status outcome;
      absl::Notification done;
      collective::CopyBetween(meetings_, from, source, to, target, absl::Seconds(30), {}, [&](absl::Status status) {
        outcome = std::move(status);
        done.Notify();
      });
      done.WaitForNotification();
      EXPECT_TRUE(outcome.ok()) << outcome;
      EXPECT_TRUE(Read(to, target) == BytesOf(kCount, 3, first));
    }
  }
}

TEST_F(GpuTogether, AllGetTheSum) {
  for (const bool cards_alone : {true, false}) {
    collective::Request request;
    request.kind = collective::Kind::kAllReduce;
    request.dtype = v1::INT32;
    request.count = kCount;
    request.devices = Devices(cards_alone);
    const auto ranks = static_cast<int32_t>(request.devices.size());
    for (int32_t rank = 0; rank < ranks; ++rank) {
      request.inputs.push_back(Counting(request.devices[static_cast<size_t>(rank)], kCount, 3, rank));
      request.outputs.push_back(Counting(request.devices[static_cast<size_t>(rank)], kCount, 0, 0));
    }
    absl::StatusOr<collective::Report> outcome = absl::UnknownError("not run");
    absl::Notification done;
    collectives_.Run(request, {}, [&](absl::StatusOr<collective::Report> report) {
      outcome = std::move(report);
      done.Notify();
    });
    done.WaitForNotification();
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    std::printf("%d devices: %s\n", ranks, outcome->algorithm);
    for (size_t rank = 0; rank < request.devices.size(); ++rank) {
      EXPECT_TRUE(Read(request.devices[rank], request.outputs[rank]) ==
                  BytesOf(kCount, 3 * ranks, ranks * (ranks - 1) / 2))
          << request.devices[rank]->name();
    }
  }
}

}  // namespace
}  // namespace kiln::testing
