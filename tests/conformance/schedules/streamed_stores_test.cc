// Results beyond the last-level cache go past it in whole lines; values stay, also where a
// buffer begins in the middle of a line. To a compiler that is told of a small cache, every
// result is such.
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/match.h"
#include "client/cpp/graph.h"
#include "client/cpp/movement.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "compiler/options/observer.h"
#include "runtime/hal/device.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/guarded_buffer.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

// Keeps the assembly.
class Listing : public compiler::CompileObserver {
 public:
  void OnPass(const compiler::PassRecord& record) override {
    if (record.name == "assembly") text = record.text();
  }
  bool WantsAssembly() const override { return true; }
  std::string text;
};

// So many bytes behind a line's beginning.
class Shifted final : public runtime::hal::Buffer {
 public:
  Shifted(const runtime::hal::Device* device, uint64_t bytes, uint64_t by)
      : whole_(device, bytes + 64 + by, GuardedBuffer::Side::kBegin), bytes_(bytes), by_(by) {}
  uint64_t bytes() const override { return bytes_; }
  const runtime::hal::Device* device() const override { return whole_.device(); }
  void* device_data() const override { return static_cast<char*>(whole_.device_data()) + by_; }
  void* host_data() const override { return static_cast<char*>(whole_.host_data()) + by_; }

 private:
  GuardedBuffer whole_;
  const uint64_t bytes_, by_;
};

compiler::HostTensor Numbers(const Shape& shape) {
  compiler::HostTensor tensor;
  tensor.dtype = compiler::DType::kFloat32;
  tensor.shape.assign(shape.begin(), shape.end());
  for (int64_t i = 0; i < compiler::NumElements(tensor.shape); ++i) {
    const auto value = static_cast<float>(i * 7919 % 31 - 15);
    tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return tensor;
}

// Last-level caches, in bytes.
constexpr uint64_t kSmall = 1 << 14, kLarge = 1 << 30;

struct Case {
  const char* name;
  Shape shape;
  Tensor (*program)(const Tensor& x);
  bool streams = true;
};

const Case kCases[] = {
    {"a few operations", {128, 512}, [](const Tensor& x) { return x * x + x; }},
    {"a copy of what is apart", {64, 1024}, [](const Tensor& x) { return client::Transpose(x); }},
    {"padding", {64, 512}, [](const Tensor& x) { return client::Pad(x, {{0, 0}, {256, 256}}); }},
    {"a number of elements that no vector divides", {129, 509}, [](const Tensor& x) { return x + x; }, false},
    // A row that is kept in the output is read again.
    {"softmax", {64, 1024}, [](const Tensor& x) { return client::Softmax(x, -1); }, false},
};

TEST(StreamedStores, PastASmallCacheWithTheSameValues) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    client::Graph graph;
    graph.Output(test.program(graph.Param(0, v1::FLOAT32, test.shape)));
    const v1::Graph built = graph.Build().value();
    const compiler::HostTensors arguments = {{0, Numbers(test.shape)}};
    const auto want = RunInterpreted(built, arguments);
    ASSERT_TRUE(want.ok()) << want.status();
    for (const CpuModel& cpu : CpuModels()) {
      for (const uint64_t cache : {kSmall, kLarge}) {
        SCOPED_TRACE(cpu.arch);
        v1::Target target = TargetOf(cpu);
        target.mutable_tuning()->set_l3_bytes(cache);
        Listing listing;
        const auto made = compiler::Compile(built, target, {}, &listing);
        ASSERT_TRUE(made.ok()) << made.status();
        const bool stores_past = absl::StrContains(listing.text, "movnt");
        EXPECT_EQ(absl::StrContains(listing.text, "sfence"), stores_past);
        // Narrower vectors fill lines where several are stored together.
        if (cpu.vector_bytes >= 64 || !test.streams || cache == kLarge) {
          EXPECT_EQ(stores_past, test.streams && cache == kSmall) << listing.text;
        }
      }
    }
    for (const uint64_t shift : {0u, 4u, 32u}) {
      CpuEngine engine(/*threads=*/2);
      engine.set_buffers([shift](runtime::hal::Device& device, uint64_t bytes) {
        return std::make_shared<Shifted>(&device, bytes, shift);
      });
      // As each CPU would, with the instructions that this machine has.
      for (const CpuModel& cpu : CpuModels()) {
        v1::Target target = TunedFor(cpu, engine.device().target());
        target.mutable_tuning()->set_l3_bytes(kSmall);
        const auto program = engine.Load(compiler::Compile(built, target, {}).value());
        ASSERT_TRUE(program.ok()) << program.status();
        const auto got = engine.RunLoaded(*program, arguments);
        ASSERT_TRUE(got.ok()) << got.status();
        if (test.name != std::string("softmax")) {
          EXPECT_EQ(got->results[0].bytes, want->results[0].bytes) << shift;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kiln::testing
