#include "compiler/batch/batching.h"

#include <gtest/gtest.h>

namespace kiln::compiler {
namespace {

TEST(BatchingText, NamesWhatVariesOrWhatForbidsIt) {
  Batching rows;
  rows.name = "batch";
  rows.parameters = {{{true, "batch"}, 0, "x"}, {{false, ""}, 1, "slot 1"}};
  rows.results = {{true, "batch*4"}, {}};
  Batching tokens;
  tokens.name = "tokens";
  tokens.obstacle = "kernel 0 (sum_n_over_n), REDUCE: a reduction runs over rows";
  EXPECT_TRUE(rows.row_wise());
  EXPECT_FALSE(tokens.row_wise());
  EXPECT_EQ(BatchingText({rows, tokens}),
            "batch: row-wise: yes\n"
            "  parameter x: varies, batch rows\n"
            "  parameter slot 1: shared\n"
            "  result 0: varies, batch*4 rows\n"
            "  result 1: shared\n"
            "tokens: row-wise: no, kernel 0 (sum_n_over_n), REDUCE: a reduction runs over rows\n");
  EXPECT_EQ(BatchingText({}), "");
}

}  // namespace
}  // namespace kiln::compiler
