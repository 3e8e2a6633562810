#include "client/cli/text/pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/graph/graph_text.h"
#include "client/cli/text/stages.h"
#include "client/cli/text/svg.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::ExplainResponse Response(const std::vector<std::pair<std::string, std::string>>& stages) {
  v1::ExplainResponse response;
  for (const auto& [name, text] : stages) {
    auto* stage = response.add_stages();
    stage->set_name(name);
    stage->set_text(text);
  }
  return response;
}

TEST(Stages, AreFoundByStagePassKernelAndFullName) {
  const auto response = Response({{"000.callify", ""},
                                  {"030.reduce to acc/k0_a", ""},
                                  {"040.linearize/k0_a", ""},
                                  {"050.linearize/k1_b", ""},
                                  {"llvm", ""}});
  EXPECT_EQ((*FindOne(response, "callify"))->name(), "000.callify");
  EXPECT_EQ((*FindOne(response, "select"))->name(), "030.reduce to acc/k0_a");
  EXPECT_EQ((*FindOne(response, "linearize/k1_b"))->name(), "050.linearize/k1_b");
  EXPECT_EQ((*FindOne(response, "040.linearize/k0_a"))->name(), "040.linearize/k0_a");
  EXPECT_EQ((*FindOne(response, "render"))->name(), "llvm");
  EXPECT_EQ(Find(response, "linearize").size(), 2u);
  EXPECT_THAT(FindOne(response, "linearize").status().message(), HasSubstr("linearize/k0_a, linearize/k1_b"));
  for (const char* name : {"050.linearize/k1.b", "linearize/k1.b", "linearize", "050.linearize"})
    EXPECT_EQ(PassOf(name), "linearize") << name;
  EXPECT_THAT(FindOne(response, "nothing").status().message(), HasSubstr("there are callify, rangeify, optimize"));
}

constexpr char kCalls[] = R"(
0 CONST [] weakint 4
1 STACK [0]
2 PARAM [1] slot=0 dtype=float32
3 PARAM [1] slot=1 dtype=float32
4 CONST [] int64 4
5 RANGE [4] range=(0) type=LOOP
6 INDEX [2, 5]
7 INDEX [3, 5]
8 LOAD [7]
9 STORE [6, 8]
10 END [9, 5]
11 SINK [10] kernel name="copy_4"
12 PARAM [1] slot=2 dtype=float32
13 CALL [11, 12, 2]
14 LINEAR [13]
)";

TEST(Pictures, TheCallListShowsKernelsByNameAndWhatTheyAreGiven) {
  const v1::Graph list = CallList(*ParseGraph(kCalls));
  EXPECT_EQ(PrintGraph(list),
            "0 SINK [] kernel name=\"copy_4\"\n"
            "1 PARAM [] slot=2 dtype=float32\n"
            "2 PARAM [] slot=0 dtype=float32\n"
            "3 CALL [0, 1, 2]\n"
            "4 LINEAR [3]\n");
}

TEST(Pictures, TextIsDrawnLineByLine) {
  const std::string svg = TextToSvg("SOURCE", "if (a<b) {\n  c;\n}");
  EXPECT_THAT(svg, HasSubstr(">SOURCE</text>"));
  EXPECT_THAT(svg, HasSubstr(">if (a&lt;b) {</text>"));
  EXPECT_THAT(svg, HasSubstr(">  c;</text>"));
}

TEST(Pictures, ALifeHasFiveKinds) {
  const auto compiled = Response({{"000.normalise", "0 CONST [] float32 1.0\n1 TUPLE [0]\n"},
                                  {"010.rangeify", kCalls},
                                  {"020.bounds/k0_copy_4", kCalls},
                                  {"assembly", "ret"},
                                  {"030.object", "12 bytes\n"}});
  const auto source = Response({{"source", "void k0_copy_4() {}"}});
  const auto pictures = DrawLife(compiled, source);
  ASSERT_TRUE(pictures.ok()) << pictures.status();
  ASSERT_EQ(pictures->size(), 5u);
  EXPECT_EQ(pictures->at(0).file, "1_tensor_graph.svg");
  EXPECT_THAT(pictures->at(1).svg, HasSubstr("CALL"));
  EXPECT_THAT(pictures->at(1).svg, Not(HasSubstr("RANGE")));
  EXPECT_EQ(pictures->at(2).file, "3_loops_k0_copy_4.svg");
  EXPECT_THAT(pictures->at(2).svg, HasSubstr("RANGE"));
  EXPECT_THAT(pictures->at(3).svg, HasSubstr("void k0_copy_4() {}"));
  EXPECT_THAT(pictures->at(4).svg, HasSubstr("BINARY: 12 bytes"));
}

}  // namespace
}  // namespace kiln::cli
