// Runs fixed kernels under Valgrind's callgrind, one after the other, on one thread, and
// has the instructions of each counted.
//
// All are compiled for one processor, whatever this one is: Valgrind knows no AVX-512, and
// the counts are kept in the tree.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "client/cpp/ops.h"
#include "runtime/hal/device.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;
using Tensors = std::vector<Tensor>;

struct Kernel {
  const char* name;
  std::vector<Shape> parameters;  // float32
  Tensor (*result)(const Tensors& parameters);
};

const Kernel kKernels[] = {
    {"multiply_add_16k", {{16384}, {16384}, {16384}}, [](const Tensors& p) { return p[0] * p[1] + p[2]; }},
    {"exp2_16k", {{16384}}, [](const Tensors& p) { return Exp2(p[0]); }},
    {"sum_64k", {{65536}}, [](const Tensors& p) { return Sum(p[0]); }},
    {"sum_rows_64x512", {{64, 512}}, [](const Tensors& p) { return Sum(p[0], {1}); }},
    {"sum_columns_512x64", {{512, 64}}, [](const Tensors& p) { return Sum(p[0], {0}); }},
    {"softmax_32x256", {{32, 256}}, [](const Tensors& p) { return Softmax(p[0], -1); }},
    {"layernorm_32x256", {{32, 256}}, [](const Tensors& p) { return LayerNorm(p[0]); }},
    {"matmul_96x64x80", {{96, 64}, {64, 80}}, [](const Tensors& p) { return Matmul(p[0], p[1]); }},
    {"conv_3x3_16x14x14", {{1, 16, 16, 16}, {16, 16, 3, 3}}, [](const Tensors& p) { return Conv2d(p[0], p[1]); }},
    {"transpose_128x96", {{128, 96}}, [](const Tensors& p) { return Transpose(p[0]) + 1; }},
};

v1::Target Haswell(const v1::Target& host) {
  v1::Target target;
  target.set_kind(v1::Target::CPU);
  target.set_triple(host.triple());
  target.set_arch("haswell");
  for (const char* feature : {"+avx", "+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+popcnt"})
    target.add_features(feature);
  v1::Target::Tuning& tuning = *target.mutable_tuning();
  tuning.set_vector_bytes(32);
  tuning.set_vector_registers(16);
  tuning.set_cores(1);
  tuning.set_l1_bytes(32 << 10);
  tuning.set_l2_bytes(256 << 10);
  tuning.set_l3_bytes(8 << 20);
  return target;
}

compiler::HostTensors Arguments(const Kernel& kernel) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-2, 2);
  compiler::HostTensors arguments;
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Shape& shape = kernel.parameters[i];
    compiler::HostTensor& tensor = arguments[static_cast<uint32_t>(i)];
    tensor.dtype = compiler::DType::kFloat32;
    tensor.shape.assign(shape.begin(), shape.end());
    std::vector<float> values(static_cast<size_t>(compiler::NumElements(tensor.shape)));
    for (float& value : values) value = uniform(random);
    tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return arguments;
}

// Leaves the counts of one run, among those of what prepares it.
void Count(CpuEngine& engine, const Kernel& kernel) {
  client::Graph graph;
  Tensors parameters;
  for (size_t i = 0; i < kernel.parameters.size(); ++i)
    parameters.push_back(graph.Param(static_cast<uint32_t>(i), v1::FLOAT32, kernel.parameters[i]));
  graph.Output(kernel.result(parameters));
  const auto message = graph.Build();
  KILN_CHECK(message.ok());
  const auto program = engine.Load(*message, {});
  KILN_CHECK(program.ok());
  const compiler::HostTensors arguments = Arguments(kernel);
  CALLGRIND_START_INSTRUMENTATION;
  KILN_CHECK(engine.BestSeconds(*program, arguments, /*turns=*/0).ok());
  CALLGRIND_DUMP_STATS_AT(kernel.name);
  CALLGRIND_STOP_INSTRUMENTATION;
}

}  // namespace
}  // namespace kiln::testing

int main() {
  kiln::testing::CpuEngine engine(/*threads=*/1);
  engine.set_target(kiln::testing::Haswell(engine.device().target()));
  for (const auto& kernel : kiln::testing::kKernels) kiln::testing::Count(engine, kernel);
  return 0;
}
