// What models of text are made of, of which each run says how many texts there are, and how long they are.
#include "tests/conformance/symbolic_programs.h"

namespace kiln::testing {
namespace {

using client::Size;
using client::Sizes;
using client::Tensor;

class SymbolicModels : public SymbolicPrograms {
 protected:
  static constexpr int64_t kHeads = 3, kDim = 8;

  // (texts, tokens, width) -> (texts, heads, tokens, dim).
  static Tensor Heads(const Tensor& x) {
    const Sizes& sizes = x.sizes();
    return client::Permute(client::Reshape(x, {sizes[0], sizes[1], kHeads, kDim}), {0, 2, 1, 3});
  }
};

TEST_F(SymbolicModels, Elementwise) {
  const auto twice = [](const auto& in) { return in[0] * 2 + 1; };
  Check("of one size", {{-2}}, twice);
  Check("of two", {{-1, -2}}, twice);
  Check("of rows", {{-1, -2, 24}}, twice);
  Check("rows of few", {{-1, -2, 3}}, twice);
  Check("each beside its row's", {{-1, -2}, {-1, 1}}, [](const auto& in) { return in[0] + in[1]; });
  Check("each beside its column's", {{-1, -2}, {-2}}, [](const auto& in) { return in[0] * in[1]; });
}

TEST_F(SymbolicModels, Movement) {
  Check("transposed", {{-1, -2}}, [](const auto& in) { return client::Transpose(in[0]); });
  Check("transposed rows", {{-2, -1, 6}}, [](const auto& in) { return client::Permute(in[0], {1, 0, 2}); });
  Check("flipped", {{-1, -2}}, [](const auto& in) { return client::Flip(in[0], {1}); });
  Check("of both sizes' product", {{-1, -2, 5}}, [](const auto& in) { return client::Reshape(in[0], {-1, 5}); });
}

TEST_F(SymbolicModels, Reductions) {
  Check("all", {{-1, -2}}, [](const auto& in) { return client::Sum(in[0]); });
  Check("rows", {{-1, -2}}, [](const auto& in) { return client::Sum(in[0], {1}); });
  Check("columns", {{-1, -2}}, [](const auto& in) { return client::Sum(in[0], {0}); });
  Check("the largest of rows", {{7, -2}}, [](const auto& in) { return client::Max(in[0], {1}); });
  Check("over tokens", {{-1, -2, 24}}, [](const auto& in) { return client::Sum(in[0], {1}); });
  Check("the products of rows", {{3, -2}},
        [](const auto& in) { return client::Prod(client::Clamp(in[0], -1, 2), {1}); });
  // More sums in one kernel than there are registers for.
  Check("sums of columns of many", {{16, -2}}, [](const auto& in) {
    Tensor all = client::Sum(in[0], {0});
    for (int times = 2; times < 20; ++times) all = all + client::Sum(in[0] * times, {0});
    return all;
  });
  Check("of rows of numbers", {{-1, -2, 24}}, [](const auto& in) { return client::Sum(in[0], {2}); });
}

TEST_F(SymbolicModels, Softmax) {
  const auto softmax = [](const auto& in) { return client::Softmax(in[0], -1); };
  Check("rows", {{-1, -2}}, softmax, 16);
  Check("of heads", {{-1, 3, -2, 7}}, softmax, 16);
  Check("over tokens", {{-1, 3, -2}}, softmax, 16);
}

TEST_F(SymbolicModels, Products) {
  const auto product = [](const auto& in) { return client::Relu(client::Matmul(in[0], in[1])); };
  Check("texts by weights", {{-1, -2, 40}, {40, 50}}, product);
  Check("by few columns", {{-1, -2, 40}, {40, 3}}, product);
  Check("and what was there", {{-1, -2, 24}, {24, 24}, {24}},
        [](const auto& in) { return in[0] + client::Matmul(in[0], in[1]) + in[2]; });
}

TEST_F(SymbolicModels, Attention) {
  Check("attention", {{-1, -2, kHeads * kDim}, {kHeads * kDim, kHeads * kDim}}, [](const auto& in) {
    const Tensor &x = in[0], &w = in[1];
    const Tensor q = Heads(client::Matmul(x, w)), k = Heads(x), v = Heads(client::Matmul(x, w));
    // 0 or 1 in place of a softmax: all sums are exact.
    const Tensor share = client::Minimum(client::Relu(client::Matmul(q, client::Transpose(k))), 1);
    const Tensor seen = client::Permute(client::Matmul(share, v), {0, 2, 1, 3});
    return x + client::Matmul(client::Reshape(seen, x.sizes()), w);
  });
}

}  // namespace
}  // namespace kiln::testing
