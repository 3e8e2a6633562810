// Convolutions and products of matrices of every small size and form, as machine code
// beside the interpreter: what lanes, tiles, copies and iterations do at their edges.
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "tests/support/arguments.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

std::vector<float> FloatsOf(const compiler::HostTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

class Products : public ::testing::Test {
 protected:
  // The program of these parameters, on each of the engines, is what the interpreter says.
  template <typename Program>
  void Check(const std::vector<Shape>& shapes, Program program) {
    client::Graph graph;
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) {
      const auto slot = static_cast<uint32_t>(inputs.size());
      inputs.push_back(graph.Param(slot, v1::FLOAT32, shape));
    }
    graph.Output(program(inputs));
    const auto built = graph.Build();
    ASSERT_TRUE(built.ok()) << built.status();
    const auto arguments = *RandomArguments(*built, /*seed=*/1);
    const auto want = RunInterpreted(*built, arguments);
    ASSERT_TRUE(want.ok()) << want.status();
    for (CpuEngine* engine : engines_) {
      const auto got = engine->Run(*built, arguments, {});
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(FloatsOf(got->results[0]), FloatsOf(want->results[0]));
    }
  }

  CpuEngine one_{1}, several_{3};
  std::vector<CpuEngine*> engines_ = {&one_, &several_};
};

TEST_F(Products, OfEverySmallSizeAndForm) {
  const int64_t sizes[] = {1, 2, 3, 4, 7, 8, 16, 17};
  const auto whole = [](int64_t size) { return size == 1 || size % 4 == 0 || size == 17; };
  for (const int64_t m : sizes) {
    for (const int64_t n : sizes) {
      for (const int64_t k : sizes) {
        for (int form = 0; form < 4; ++form) {
          // Sizes near those of vectors in all forms; the others in one.
          if (!(whole(m) && whole(n) && whole(k)) && form != (m + n + k) % 4) continue;
          SCOPED_TRACE(absl::StrCat(m, " x ", n, " over ", k, ", form ", form));
          engines_ = {(m + n + form) % 2 == 0 ? &one_ : &several_};
          Check({form & 1 ? Shape{k, m} : Shape{m, k}, form & 2 ? Shape{n, k} : Shape{k, n}},
                [form](const std::vector<Tensor>& in) {
                  return client::Matmul(form & 1 ? client::Transpose(in[0]) : in[0],
                                        form & 2 ? client::Transpose(in[1]) : in[1]);
                });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(Products, OfOddSizesInEveryForm) {
  for (const auto& [m, n, k] : {std::tuple{50, 61, 37}, {33, 100, 64}, {7, 130, 48}, {97, 31, 19}, {16, 16, 300}}) {
    for (int form = 0; form < 4; ++form) {
      SCOPED_TRACE(absl::StrCat(m, " x ", n, " over ", k, ", form ", form));
      Check({form & 1 ? Shape{k, m} : Shape{m, k}, form & 2 ? Shape{n, k} : Shape{k, n}, Shape{n}},
            [form](const std::vector<Tensor>& in) {
              return client::Matmul(form & 1 ? client::Transpose(in[0]) : in[0],
                                    form & 2 ? client::Transpose(in[1]) : in[1]) +
                     in[2];
            });
      if (HasFatalFailure()) return;
    }
  }
}

struct Case {
  int64_t batch, in, out, kernel, stride, padding, image, groups = 1, dilation = 1;
};

// The convolutions of ResNet-50 of fewer channels and smaller images, and what it has not:
// groups, a filter for each channel, dilation, sizes that nothing divides.
constexpr Case kCases[] = {
    {1, 3, 32, 7, 2, 3, 32},       {1, 8, 16, 1, 1, 0, 14},    {1, 8, 32, 3, 1, 1, 14},
    {1, 16, 64, 1, 1, 0, 8},       {1, 32, 16, 1, 1, 0, 14},   {1, 16, 32, 3, 2, 1, 14},
    {1, 16, 48, 1, 2, 0, 14},      {1, 32, 32, 3, 1, 1, 7},    {1, 64, 32, 1, 1, 0, 7},
    {1, 32, 40, 3, 2, 1, 7},       {1, 20, 33, 1, 1, 0, 7},    {2, 5, 17, 3, 1, 1, 9},
    {3, 16, 32, 1, 1, 0, 7},       {2, 16, 32, 3, 1, 1, 7},    {2, 4, 6, 5, 1, 2, 11},
    {1, 16, 32, 3, 1, 0, 9},       {1, 16, 32, 3, 2, 0, 15},   {1, 16, 32, 3, 1, 1, 7, 2},
    {1, 16, 16, 3, 1, 1, 10, 16},  {1, 32, 64, 3, 2, 1, 8, 4}, {1, 16, 32, 3, 1, 2, 12, 1, 2},
    {2, 8, 16, 3, 3, 1, 13, 1, 2}, {1, 1, 16, 3, 1, 1, 16},    {1, 17, 16, 2, 1, 0, 16},
    {1, 4, 100, 1, 1, 0, 5},
};

TEST_F(Products, Convolutions) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(absl::StrCat(c.kernel, "x", c.kernel, "/", c.stride, " ", c.in, " -> ", c.out, " @", c.image,
                              " groups ", c.groups, " padding ", c.padding, " dilation ", c.dilation));
    client::ConvOptions options;
    options.stride = {c.stride, c.stride};
    options.padding = {c.padding, c.padding};
    options.dilation = {c.dilation, c.dilation};
    options.groups = c.groups;
    const std::vector<Shape> shapes = {
        {c.batch, c.in, c.image, c.image}, {c.out, c.in / c.groups, c.kernel, c.kernel}, {c.out}};
    Check(shapes,
          [&](const std::vector<Tensor>& in) { return client::Conv2d(in[0], in[1], client::Tensor(), options); });
    // What follows it reads in the same order, or in another.
    Check(shapes,
          [&](const std::vector<Tensor>& in) { return client::Relu(client::Conv2d(in[0], in[1], in[2], options)); });
    if (HasFatalFailure()) return;
  }
}

TEST_F(Products, ConvolutionsWithASkip) {
  for (const int64_t image : {6, 7, 14}) {
    Check({{1, 32, image, image}, {32, 32, 3, 3}, {32}}, [](const std::vector<Tensor>& in) {
      client::ConvOptions options;
      options.padding = {1, 1};
      return client::Relu(client::Conv2d(in[0], in[1], in[2], options) + in[0]);
    });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kiln::testing
