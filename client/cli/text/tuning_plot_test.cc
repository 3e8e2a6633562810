#include "client/cli/text/tuning_plot.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kiln::cli {
namespace {

SearchedKernel Searched() { return {"a<b", 80, 10, {40, 120, 20, 60, 10}, 7}; }

TEST(TuningPlot, TextFallsFromTheFirstToTheBest) {
  const std::string text = PlotText(Searched(), 40, 5);
  EXPECT_EQ(text,
            "     40 us |**   \n"
            "           |     \n"
            "           |  ** \n"
            "           |     \n"
            "     10 us |    *\n"
            "           +-----\n"
            "            5 candidates that ran\n");
}

TEST(TuningPlot, TextOfNothingIsNothing) { EXPECT_EQ(PlotText({"k", 80, 80, {}, 3}), ""); }

TEST(TuningPlot, TextIsNoWiderThanAsked) {
  SearchedKernel many = Searched();
  many.micros.assign(1000, 5);
  const std::string text = PlotText(many, 40, 4);
  size_t longest = 0, begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin))
    longest = std::max(longest, end - begin);
  EXPECT_LE(longest, 40u);
}

TEST(TuningPlot, SvgHasADotForEachCandidateThatRan) {
  const std::string svg = PlotSvg({Searched(), {"idle", 0, 0, {}, 1}});
  size_t dots = 0;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++dots;
  EXPECT_EQ(dots, 5u);
  EXPECT_NE(svg.find("a&lt;b: 10 us, was 80 us"), std::string::npos) << svg;
  EXPECT_NE(svg.find("7 candidates, 5 of which ran"), std::string::npos);
}

}  // namespace
}  // namespace kiln::cli
