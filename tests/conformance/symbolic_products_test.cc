// Products and convolutions of which each run says how many rows or images there are: tiled and packed as those of
// numbers are, for every number the interpreter's values.
#include "tests/conformance/symbolic_programs.h"

namespace kiln::testing {
namespace {

class SymbolicProducts : public SymbolicPrograms {};

TEST_F(SymbolicProducts, OfRows) {
  const auto product = [](const auto& in) { return client::Relu(client::Matmul(in[0], in[1])); };
  for (const int64_t columns : {3, 100}) {
    for (const int64_t terms : {3, 200}) {
      Check(absl::StrCat(columns, " over ", terms), {{-1, terms}, {terms, columns}}, product);
      Check(absl::StrCat(columns, " over ", terms, ", transposed"), {{-1, terms}, {columns, terms}},
            [](const auto& in) { return client::Matmul(in[0], client::Transpose(in[1])); });
    }
  }
  Check("rows of rows", {{-1, 6, 40}, {40, 50}}, product);
  Check("rows of many", {{2, -1, 40}, {40, 50}}, product);
}

TEST_F(SymbolicProducts, OfEach) {
  const auto product = [](const auto& in) { return client::Matmul(in[0], in[1]); };
  Check("one by one", {{-1, 17, 40}, {-1, 40, 33}}, product);
  Check("heads", {{-1, 3, 17, 40}, {-1, 3, 40, 33}}, product);
  Check("transposed", {{-1, 3, 17, 40}, {-1, 3, 33, 40}},
        [](const auto& in) { return client::Matmul(in[0], client::Transpose(in[1])); });
  Check("counted within", {{3, -1, 17, 40}, {3, -1, 40, 33}}, product);
}

TEST_F(SymbolicProducts, OfColumns) {
  Check("columns", {{30, 40}, {40, -1}}, [](const auto& in) { return client::Matmul(in[0], in[1]); });
  Check("all", {{-1, 40}, {-1, 40}}, [](const auto& in) { return client::Matmul(in[0], client::Transpose(in[1])); });
}

TEST_F(SymbolicProducts, Convolutions) {
  for (const int64_t kernel : {1, 3, 7}) {
    for (const int64_t stride : {1, 2}) {
      const int64_t channels = stride == 1 ? 5 : 32;
      Check(absl::StrCat(channels, " channels, ", kernel, " wide, by ", stride),
            {{-1, 6, 14, 14}, {channels, 6, kernel, kernel}, {channels}}, [&](const auto& in) {
              return client::Relu(client::Conv2d(in[0], in[1], in[2],
                                                 {.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}}));
            });
    }
  }
}

}  // namespace
}  // namespace kiln::testing
