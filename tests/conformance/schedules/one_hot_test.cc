// A product with one-hot rows, as the C++ client makes them: its arange is added up digit
// by digit. One kernel that loads the chosen rows, whatever the table's length.
#include <gtest/gtest.h>

#include <cstring>

#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "runtime/exec/load.h"
#include "tests/support/cpu_programs.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

constexpr int64_t kIds = 21, kWidth = 33;

v1::Graph LookUp(int64_t rows, v1::DType ids) {
  client::Graph graph;
  const client::Tensor table = graph.Param(0, v1::FLOAT32, {rows, kWidth}), id = graph.Param(1, ids, {kIds});
  graph.Output(client::Matmul(client::OneHot(id, rows, v1::FLOAT32), table));
  const auto built = graph.Build();
  EXPECT_TRUE(built.ok()) << built.status();
  return *built;
}

compiler::HostTensors Arguments(int64_t rows, v1::DType ids) {
  compiler::HostTensor table{compiler::DType::kFloat32, {rows, kWidth}, {}};
  compiler::HostTensor id{compiler::FromWire(ids), {kIds}, {}};
  for (int64_t i = 0; i < rows * kWidth; ++i) {
    const auto number = static_cast<float>(i) / 8;
    table.bytes.append(reinterpret_cast<const char*>(&number), 4);
  }
  for (int64_t i = 0; i < kIds; ++i) {
    const int64_t place = i * 7 % (rows + 2) - 1;  // some are no rows
    id.bytes.append(reinterpret_cast<const char*>(&place), ids == v1::INT64 ? 8 : 4);
  }
  return {{0, table}, {1, id}};
}

TEST(OneHot, RowsAreTheInterpreters) {
  for (const v1::DType ids : {v1::INT32, v1::INT64}) {
    for (const int64_t rows : {2, 3, 8, 50, 64}) {
      const auto want = RunInterpreted(LookUp(rows, ids), Arguments(rows, ids));
      const auto got = CpuEngine(1).Run(LookUp(rows, ids), Arguments(rows, ids), {});
      ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
      EXPECT_EQ(got->results[0].bytes, want->results[0].bytes) << rows;
    }
  }
}

TEST(OneHot, IsOneLoad) {
  for (const int64_t rows : {1000, 32000}) {
    for (const auto& [cpu, executable] : CompiledForEachCpu(LookUp(rows, v1::INT32))) {
      EXPECT_EQ(executable.kernels_size(), 1) << rows << " on " << cpu;
      EXPECT_GT(executable.cost().flops(), 0) << rows << " on " << cpu;
      EXPECT_LT(executable.cost().flops(), 20 * kIds * kWidth) << rows << " on " << cpu;
    }
  }
}

}  // namespace
}  // namespace kiln::testing
