#include "compiler/opt/gpu/gpu_tile.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kCores = 132;

std::string Chosen(int64_t m, int64_t n, int64_t others, bool vectors, int64_t most_sharers) {
  const GpuTile tile = ChooseGpuTile(m, n, others, kCores, vectors, most_sharers);
  return absl::StrCat(tile.rows, "x", tile.columns, " by ", tile.row_items, "x", tile.column_items, " x ",
                      tile.sharers);
}

TEST(GpuTile, LargeOutputsAreOfLargeTiles) {
  EXPECT_EQ(Chosen(4096, 4096, 1, true, 32), "8x8 by 16x16 x 1");
  EXPECT_EQ(Chosen(1024, 1024, 1, true, 32), "4x4 by 16x16 x 1");
  EXPECT_EQ(Chosen(4096, 4096, 1, false, 32), "8x1 by 8x32 x 1");
}

// The layers of a transformer for 64 tokens, and a convolution of 512 images of 7 by 7.
TEST(GpuTile, TermsAreSharedWhereThereAreFewResults) {
  EXPECT_EQ(Chosen(64, 768, 1, true, 32), "4x4 by 2x8 x 16");
  EXPECT_EQ(Chosen(64, 3072, 1, true, 32), "4x4 by 2x8 x 16");
  EXPECT_EQ(Chosen(512, 7, 7, false, 32), "4x1 by 2x8 x 16");
}

TEST(GpuTile, NoMoreThanMayShareDo) {
  EXPECT_EQ(Chosen(64, 768, 1, true, 8), "4x1 by 4x16 x 4");
  EXPECT_EQ(Chosen(64, 768, 1, true, 4), "1x1 by 4x32 x 1");
  EXPECT_EQ(Chosen(64, 768, 1, true, 1), "1x1 by 4x32 x 1");
}

TEST(GpuTile, PaddingIsAtMostAQuarter) {
  EXPECT_EQ(Chosen(64, 9, 16, false, 1), "1x1 by 8x8 x 1");
  EXPECT_EQ(Chosen(33, 4096, 4, true, 1), "2x4 by 4x16 x 1");
}

}  // namespace
}  // namespace kiln::compiler
