// Graphs of symbolic sizes by the C++ client, through a whole server: one compile, and the
// right values for every value of the variables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "client/cpp/client.h"
#include "client/cpp/ops.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

using namespace client;  // NOLINT: the builder's functions read best without a prefix.
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr RunOptions kInline = {.results = v1::RESULT_INLINE};

std::vector<float> Counting(int64_t count, float from = 0) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), from);
  return values;
}

class Symbolic : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    auto client = Client::Connect(address());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  Program Compiled(const Graph& graph) {
    const auto message = graph.Build();
    EXPECT_TRUE(message.ok()) << message.status();
    auto program = client_->Compile(*message);
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }

  // The results of a call, each with its own shape.
  static std::vector<HostTensor> Ran(const Program& program, const Arguments& arguments) {
    auto run = program.Run(arguments, kInline);
    EXPECT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(run.ok() && run->from_cache);  // Compile made it, and no call makes another
    std::vector<HostTensor> tensors;
    if (run.ok()) {
      for (RunResult& result : run->results) tensors.push_back(std::move(result.tensor));
    }
    return tensors;
  }

  std::unique_ptr<Client> client_;
};

// x is (n, 2): 0 1, 2 3, …
TEST_F(Symbolic, OneProgramServesEveryValue) {
  Graph graph;
  const Size n = graph.Variable(1, 1, 8, "n");
  const Tensor x = graph.Param(0, v1::FLOAT32, {n, 2}, "x");
  graph.Output(x + x);
  graph.Output(Sum(x, 0));
  graph.Output(Mean(x, 0));
  graph.Output(Max(x));
  graph.Output(Reshape(x, {-1}));
  graph.Output(Matmul(Transpose(x), x));
  graph.Output(Var(x, 0, false, 0));
  graph.Output(graph.Number(2 * n + 1));
  const Program program = Compiled(graph);
  for (const int64_t rows : {3, 8, 1, 5}) {
    const std::vector<float> values = Counting(2 * rows);
    const std::vector<HostTensor> got =
        Ran(program, Arguments().Set(0, HostTensor::Of<float>({rows, 2}, values)).Set(1, rows));
    ASSERT_EQ(got.size(), 8u);
    std::vector<float> twice;
    float sums[2] = {}, products[2][2] = {}, squares[2] = {};
    for (int64_t row = 0; row < rows; ++row) {
      for (const int a : {0, 1}) {
        twice.push_back(2 * values[2 * row + a]);
        sums[a] += values[2 * row + a];
        for (const int b : {0, 1}) products[a][b] += values[2 * row + a] * values[2 * row + b];
      }
    }
    const float count = static_cast<float>(rows);
    for (int64_t row = 0; row < rows; ++row) {
      for (const int a : {0, 1}) squares[a] += std::pow(values[2 * row + a] - sums[a] / count, 2.0f);
    }
    EXPECT_EQ(got[0].shape, (Shape{rows, 2}));
    EXPECT_EQ(got[0].Values<float>(), twice);
    EXPECT_EQ(got[1].Values<float>(), (std::vector<float>{sums[0], sums[1]}));
    EXPECT_EQ(got[2].Values<float>(), (std::vector<float>{sums[0] / count, sums[1] / count}));
    EXPECT_EQ(got[3].Values<float>(), (std::vector<float>{static_cast<float>(2 * rows - 1)}));
    EXPECT_EQ(got[4].shape, (Shape{2 * rows}));
    EXPECT_EQ(got[4].Values<float>(), values);
    EXPECT_EQ(got[5].Values<float>(),
              (std::vector<float>{products[0][0], products[0][1], products[1][0], products[1][1]}));
    for (const int a : {0, 1}) EXPECT_NEAR(got[6].Values<float>()[a], squares[a] / count, 1e-5f);
    EXPECT_EQ(got[7].Values<int32_t>(), std::vector<int32_t>{static_cast<int32_t>(2 * rows + 1)});
  }
}

// Of (rows, 3) and (columns,): sizes and offsets that two variables make together.
TEST_F(Symbolic, MovementTakesSizesAndOffsets) {
  Graph graph;
  const Size n = graph.Variable(2, 1, 6, "n"), m = graph.Variable(3, 0, 4, "m");
  const Tensor x = graph.Param(0, v1::INT32, {n, 3}), y = graph.Param(1, v1::INT32, {m});
  graph.Output(Pad(y, {{n, 1}}, 7));
  graph.Output(Expand(Unsqueeze(y, 0), {n, -1}));
  graph.Output(Slice(x, 0, n - 1, n));
  graph.Output(Concat({Flatten(x), y}, 0));
  graph.Output(graph.Arange(n + m));
  graph.Output(Flip(Permute(x, {1, 0}), {1}));
  graph.Output(ArgMax(x, 0));
  graph.Output(Unsqueeze(y, 1) + Unsqueeze(graph.Arange(n), 0));
  const Program program = Compiled(graph);
  for (const auto& [rows, columns] : {std::pair{2, 3}, {6, 4}, {1, 0}}) {
    std::vector<int32_t> a(3 * rows), b(columns);
    std::iota(a.begin(), a.end(), 10);
    std::iota(b.begin(), b.end(), 50);
    const std::vector<HostTensor> got = Ran(program, Arguments()
                                                         .Set(0, HostTensor::Of<int32_t>({rows, 3}, a))
                                                         .Set(1, HostTensor::Of<int32_t>({columns}, b))
                                                         .Set(2, int64_t{rows})
                                                         .Set(3, int64_t{columns}));
    ASSERT_EQ(got.size(), 8u);
    std::vector<int32_t> padded(rows, 7), stretched, joined = a, counted(rows + columns), flipped, sums;
    padded.insert(padded.end(), b.begin(), b.end());
    padded.push_back(7);
    for (int row = 0; row < rows; ++row) stretched.insert(stretched.end(), b.begin(), b.end());
    joined.insert(joined.end(), b.begin(), b.end());
    std::iota(counted.begin(), counted.end(), 0);
    for (int column = 0; column < 3; ++column) {
      for (int row = rows; row-- > 0;) flipped.push_back(a[3 * row + column]);
    }
    for (const int32_t value : b) {
      for (int row = 0; row < rows; ++row) sums.push_back(value + row);
    }
    EXPECT_EQ(got[0].shape, (Shape{rows + columns + 1}));
    EXPECT_EQ(got[0].Values<int32_t>(), padded);
    EXPECT_EQ(got[1].shape, (Shape{rows, columns}));
    EXPECT_EQ(got[1].Values<int32_t>(), stretched);
    EXPECT_EQ(got[2].Values<int32_t>(), (std::vector<int32_t>(a.end() - 3, a.end())));
    EXPECT_EQ(got[3].Values<int32_t>(), joined);
    EXPECT_EQ(got[4].Values<int32_t>(), counted);
    EXPECT_EQ(got[5].shape, (Shape{3, rows}));
    EXPECT_EQ(got[5].Values<int32_t>(), flipped);
    EXPECT_EQ(got[6].Values<int32_t>(), std::vector<int32_t>(3, rows - 1));
    EXPECT_EQ(got[7].shape, (Shape{columns, rows}));
    EXPECT_EQ(got[7].Values<int32_t>(), sums);
  }
}

// What only some values make fit is refused by the calls that give others.
TEST_F(Symbolic, ACallWhoseSizesDoNotFitIsRefused) {
  Graph graph;
  const Size n = graph.Variable(1, 1, 8, "n"), m = graph.Variable(2, 1, 8, "m");
  const Tensor x = graph.Param(0, v1::FLOAT32, {n});
  graph.Output(Shrink(x, {{0, m}}));
  const Program program = Compiled(graph);
  const auto arguments = [](int64_t rows, int64_t kept) {
    return Arguments().Set(0, HostTensor::Of<float>({rows}, Counting(rows))).Set(1, rows).Set(2, kept);
  };
  EXPECT_THAT(Ran(program, arguments(5, 2))[0].Values<float>(), ElementsAre(0, 1));
  EXPECT_THAT(Ran(program, arguments(2, 2))[0].Values<float>(), ElementsAre(0, 1));
  const auto refused = program.Run(arguments(2, 3), kInline);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(DetailOf(refused.status())->code(), v1::OUT_OF_BOUNDS) << refused.status();
  const auto beyond = program.Run(arguments(9, 3), kInline);
  ASSERT_FALSE(beyond.ok());
  EXPECT_THAT(beyond.status().message(), HasSubstr("n"));
}

// In place, and from buffers with room for more.
TEST_F(Symbolic, AParameterOfSymbolicSizeIsUpdated) {
  Graph graph;
  const Size n = graph.Variable(1, 1, 8, "n");
  const Tensor x = graph.Param(0, v1::FLOAT32, {n});
  graph.Update(x, x * 2 + 1);
  const Program program = Compiled(graph);
  const auto buffer = client_->Allocate(uint64_t{8} * 4);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  for (const int64_t rows : {3, 2}) ASSERT_TRUE(program.Run(Arguments().Set(0, *buffer).Set(1, rows)).ok());
  const auto bytes = client_->Read(*buffer);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_THAT((HostTensor{v1::FLOAT32, {8}, *bytes}.Values<float>()), ElementsAre(3, 3, 1, 0, 0, 0, 0, 0));
}

TEST_F(Symbolic, AValueBeyondInt32IsComputedInInt64) {
  Graph graph;
  const Size n = graph.Variable(0, 1, 1 << 20, "n"), m = graph.Variable(1, 1, 1 << 20, "m");
  graph.Output(graph.Number(n * m, v1::INT64));
  graph.Output(graph.Number(1 - n * m, v1::INT64));
  const std::vector<HostTensor> got =
      Ran(Compiled(graph), Arguments().Set(0, int64_t{1} << 19).Set(1, int64_t{1} << 18));
  EXPECT_THAT(got[0].Values<int64_t>(), ElementsAre(int64_t{1} << 37));
  EXPECT_THAT(got[1].Values<int64_t>(), ElementsAre(1 - (int64_t{1} << 37)));
}

// 70,000 is infinite in float16.
TEST_F(Symbolic, AMeanOfNarrowFloatsDividesByTheWholeCount) {
  Graph graph;
  const Size n = graph.Variable(1, 1, 1 << 17, "n");
  graph.Output(Cast(Mean(graph.Param(0, v1::FLOAT16, {n})), v1::FLOAT32));
  const Program program = Compiled(graph);
  const int64_t rows = 70000;
  HostTensor x = HostTensor::Of<uint16_t>({rows}, std::vector<uint16_t>(rows, 0x2c00));  // 1/16
  x.dtype = v1::FLOAT16;
  EXPECT_NEAR(Ran(program, Arguments().Set(0, x).Set(1, rows))[0].Values<float>()[0], 0.0625, 1e-4);
}

}  // namespace
}  // namespace kiln::e2e
