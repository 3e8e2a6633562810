// What the command prints, without a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cli/text/error_text.h"
#include "client/cli/text/graph_file.h"
#include "client/cli/text/output.h"
#include "client/cli/text/table.h"
#include "client/cli/text/tensor_text.h"

namespace kiln::cli {
namespace {

using client::HostTensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OutputTest, AFileHasWhatWasWrittenLast) {
  const std::string file = ::testing::TempDir() + "/output";
  ASSERT_TRUE(WriteText("a longer text\n", file).ok());
  ASSERT_TRUE(WriteText("text\n", file).ok());
  std::ifstream stream(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "text\n");
  EXPECT_EQ(WriteText("text\n", "/no/such/folder/output").message(), "cannot write /no/such/folder/output");
}

TEST(OutputTest, WithoutANameItIsTheStandardOutput) {
  ::testing::internal::CaptureStdout();
  ASSERT_TRUE(WriteText("text\n", "").ok());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "text\n");
}

TEST(TableTest, TextStandsLeftAndNumbersRight) {
  EXPECT_EQ(TableText({{"name", "time"}, {"a", "1.5 ms"}, {"longer", "200 us"}, {"µ", "-"}}),
            "name    time\n"
            "a       1.5 ms\n"
            "longer  200 us\n"
            "µ       -\n");
  EXPECT_EQ(TableText({{"n"}, {"7"}, {"12345"}}), "n\n    7\n12345\n");
}

TEST(TableTest, QuantitiesHaveUnits) {
  EXPECT_EQ(MicrosText(12.345), "12.35 us");
  EXPECT_EQ(MicrosText(45678), "45.68 ms");
  EXPECT_EQ(MicrosText(3e9), "3000 s");
  EXPECT_EQ(BytesText(1500), "1.5 kB");
}

TEST(TensorTextTest, ElementsOfEveryWidth) {
  EXPECT_THAT(Elements(HostTensor::Of<int8_t>({2}, {-1, 127})), ElementsAre(-1, 127));
  EXPECT_THAT(Elements(HostTensor::Of<uint64_t>({1}, {uint64_t{1} << 40})), ElementsAre(1099511627776.0));
  EXPECT_THAT(Elements({v1::FLOAT16, {2}, std::string("\x00\x3c\x00\xc0", 4)}), ElementsAre(1, -2));
  EXPECT_THAT(Elements({v1::BFLOAT16, {1}, std::string("\x80\x3f", 2)}), ElementsAre(1));
  EXPECT_THAT(Elements({v1::BOOL, {3}, std::string("\x00\x01\x07", 3)}), ElementsAre(0, 1, 1));
}

TEST(TensorTextTest, SummariesLeaveNansOut) {
  const Summary summary = Summarize(HostTensor::Of<float>({4}, {1, NAN, 4, -2}));
  EXPECT_EQ(summary.least, -2);
  EXPECT_EQ(summary.greatest, 4);
  EXPECT_EQ(summary.mean, 1);
  EXPECT_EQ(summary.nans, 1);
  EXPECT_TRUE(std::isnan(Summarize(HostTensor::Of<float>({0}, {})).mean));
}

TEST(TensorTextTest, LongTensorsAreCut) {
  const HostTensor tensor = HostTensor::Of<int32_t>({6}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(ElementsText(tensor, 6), "1 2 3 4 5 6");
  EXPECT_EQ(ElementsText(tensor, 4), "1 2 ... 5 6");
}

TEST(TensorTextTest, RandomTensorsAreTheSameForTheSameSeed) {
  std::mt19937_64 one(5), two(5);
  for (const v1::DType dtype : {v1::BOOL, v1::INT8, v1::UINT64, v1::FLOAT16, v1::BFLOAT16, v1::FLOAT64}) {
    const HostTensor tensor = RandomTensor(dtype, {100}, one);
    EXPECT_EQ(static_cast<int64_t>(tensor.bytes.size()), 100 * client::DTypeSize(dtype));
    EXPECT_EQ(tensor.bytes, RandomTensor(dtype, {100}, two).bytes);
    EXPECT_LT(std::abs(Summarize(tensor).greatest), 10);
  }
}

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(GraphFileTest, TheEndingSaysTheFormat) {
  const auto text = ReadGraph(WriteFile(
      "g.txtpb", R"(nodes { op: STACK } nodes { op: PARAM src: 0 buffer { slot: 3 dtype: INT8 name: "x" } })"));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->nodes_size(), 2);
  const auto binary = ReadGraph(WriteFile("g.pb", text->SerializeAsString()));
  ASSERT_TRUE(binary.ok()) << binary.status();
  EXPECT_EQ(binary->SerializeAsString(), text->SerializeAsString());
  const auto uop = ReadGraph(WriteFile("g.uop", "0 STACK []\n1 PARAM [0] slot=3 dtype=int8 name=\"x\"\n"));
  ASSERT_TRUE(uop.ok()) << uop.status();
  EXPECT_EQ(uop->SerializeAsString(), text->SerializeAsString());

  EXPECT_EQ(SlotOf(*text, "x"), 3u);
  EXPECT_EQ(SlotOf(*text, "3"), 3u);
  EXPECT_EQ(SlotOf(*text, "0"), std::nullopt);
  EXPECT_EQ(SlotOf(*text, "y"), std::nullopt);
}

TEST(GraphFileTest, ErrorsNameFileAndLine) {
  const auto text = ReadGraph(WriteFile("bad.txtpb", "nodes {\n  op: NOPE\n}"));
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("bad.txtpb: line 3"));
  const auto uop = ReadGraph(WriteFile("bad.uop", "0 ADD [1"));
  EXPECT_THAT(uop.status().message(), HasSubstr("bad.uop: "));
  EXPECT_THAT(ReadGraph(WriteFile("bad.pb", "\xff\xff")).status().message(), HasSubstr("bad.pb: no serialized"));
  EXPECT_THAT(ReadGraph(WriteFile("bad.png", "")).status().message(),
              HasSubstr("ends in .uop, .txtpb, .pb or .kgraph"));
  EXPECT_EQ(ReadGraph("/nowhere.uop").status().code(), absl::StatusCode::kNotFound);
}

TEST(ErrorTextTest, QuotesTheNodeAndSaysWhatToDo) {
  v1::Graph graph;
  for (int i = 0; i < 2; ++i) graph.add_nodes()->set_op(v1::CONST);
  v1::UOp& add = *graph.add_nodes();
  add.set_op(v1::ADD);
  add.add_src(0);
  add.add_src(1);
  v1::ErrorDetail detail;
  detail.set_code(v1::DTYPE_MISMATCH);
  detail.set_node(2);
  detail.set_tag("sum");
  EXPECT_EQ(ErrorText(MakeError(detail, "float32 and int8"), graph),
            "kiln: DTYPE_MISMATCH: float32 and int8\n"
            "  node    2 ADD [0, 1] \n"
            "  tag     sum\n"
            "  remedy  put a CAST before the operand that differs\n");
  EXPECT_EQ(ErrorText(absl::NotFoundError("no file"), graph), "kiln: NOT_FOUND: no file\n");
}

TEST(ErrorTextTest, EveryCodeIsKnownOrPlain) {
  for (int code = v1::ErrorCode_MIN; code <= v1::ErrorCode_MAX; ++code) {
    if (!v1::ErrorCode_IsValid(code) || code == 0) continue;
    const auto name = v1::ErrorCode_Name(static_cast<v1::ErrorCode>(code));
    EXPECT_THAT(ErrorText(MakeError(static_cast<v1::ErrorCode>(code), "text"), v1::Graph()),
                HasSubstr(absl::StrCat("kiln: ", name, ": text\n")));
  }
}

}  // namespace
}  // namespace kiln::cli
