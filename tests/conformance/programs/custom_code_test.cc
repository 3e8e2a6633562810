// A client's own code in a LINEAR, where the server's owner allows it: on the CPU as
// LLVM IR, in C as C, against values computed here; and how bad code is refused.
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "tests/support/engines/c_engine.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

// out0[i] = in1[i] * 3 + 1, out2[i] = in3[i] * 0.5.
constexpr char kProgram[] = R"(dialect LEGACY_2025
0 DEFINE_GLOBAL : int32 [] slot=0
1 DEFINE_GLOBAL : int32 [] slot=1
2 DEFINE_GLOBAL : float32 [] slot=2
3 DEFINE_GLOBAL : float32 [] slot=3
4 CONST : int32 [] 0
5 CONST : int32 [] 4
6 CONST : int32 [] 3
7 CONST : float32 [] 0.5
8 LOOP [4, 5]
9 LOAD [1, 8]
10 CUSTOMI : int32 [9, 6] text="$MUL"
11 INS : int32 [10] text="$NEXT"
12 CUSTOM [] text="$FENCE"
13 STORE [0, 8, 11]
14 LOAD [3, 8]
15 CUSTOMI : float32 [14, 7] text="$HALF"
16 STORE [2, 8, 15]
17 ENDLOOP [8]
18 LINEAR [8, 9, 10, 11, 12, 13, 14, 15, 16, 17]
)";

struct Texts {
  const char *mul, *next, *fence, *half;
};
constexpr Texts kLlvm = {"mul i32 {0}, {1}", "add i32 {0}, 1", "fence seq_cst", "fmul float {0}, {1}"};
constexpr Texts kC = {"{0} * {1}", "{0} + 1", "(void)0", "{0} * {1}"};

v1::Graph Program(const Texts& texts) {
  const auto graph = ParseGraph(absl::StrReplaceAll(
      kProgram, {{"$MUL", texts.mul}, {"$NEXT", texts.next}, {"$FENCE", texts.fence}, {"$HALF", texts.half}}));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : v1::Graph();
}

template <typename T>
compiler::HostTensor Row(compiler::DType dtype, const T (&values)[4]) {
  return {dtype, {4}, std::string(reinterpret_cast<const char*>(values), sizeof(values))};
}

compiler::HostTensors Arguments() {
  return {{0, Row<int32_t>(compiler::DType::kInt32, {0, 0, 0, 0})},
          {1, Row<int32_t>(compiler::DType::kInt32, {-7, 0, 5, 1 << 30})},
          {2, Row<float>(compiler::DType::kFloat32, {0, 0, 0, 0})},
          {3, Row<float>(compiler::DType::kFloat32, {1, -3, 0.25f, 1e30f})}};
}

void ExpectValues(const absl::StatusOr<compiler::InterpResult>& got) {
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->written.at(0).bytes, (Row<int32_t>(compiler::DType::kInt32, {-20, 1, 16, -1073741823}).bytes));
  EXPECT_EQ(got->written.at(2).bytes, (Row<float>(compiler::DType::kFloat32, {0.5f, -1.5f, 0.125f, 5e29f}).bytes));
}

compiler::Options Allowing() {
  compiler::Options options = ExactOptions();
  options.limits.allow_native_code = true;
  return options;
}

TEST(CustomCode, RunsOnTheCpu) {
  CpuEngine cpu;
  ExpectValues(cpu.Run(Program(kLlvm), Arguments(), Allowing()));
}

TEST(CustomCode, StandsInC) {
  Texts texts = kC;
  texts.mul = "(int)((unsigned){0} * {1})";  // it wraps, as the test's values do
  CEngine engine;
  const auto number = engine.Add(Program(texts), Allowing());
  ASSERT_TRUE(number.ok()) << number.status();
  const absl::Status built = engine.Build();
  ASSERT_TRUE(built.ok()) << built;
  ExpectValues(engine.Run(*number, Arguments()));
}

TEST(CustomCode, BadCodeIsRefusedWithItsNode) {
  CpuEngine cpu;
  const char* const bad[] = {"mul i33 {0}, {1}", "no such thing", "", "call i32 @abort()",
                             "add i32 {0}, 1\nret i32 0\n}\ndefine void @more() {"};
  for (const char* text : bad) {
    v1::Graph graph = Program(kLlvm);
    graph.mutable_nodes(10)->set_text(text);
    const auto got = cpu.Run(graph, Arguments(), Allowing());
    ASSERT_FALSE(got.ok()) << text;
    EXPECT_EQ(DetailOf(got.status())->code(), v1::BAD_ARGUMENT) << got.status();
    EXPECT_EQ(DetailOf(got.status())->node(), 10u) << got.status();
  }
}

// A whole program in the target's language; its LINEAR says that it reads slot 1, and writes slot 0.
constexpr char kWhole[] = R"(dialect LEGACY_2025
0 DEFINE_GLOBAL : int32 [] slot=0
1 DEFINE_GLOBAL : int32 [] slot=1
2 CONST : int32 [] 0
3 CONST : int32 [] 4
4 LOOP [2, 3]
5 LOAD [1, 4]
6 STORE [0, 4, 5]
7 ENDLOOP [4]
8 LINEAR [4, 5, 6, 7] kernel name="whole"
9 SOURCE [] text="$TEXT"
10 PROGRAM [8, 9]
)";
constexpr char kWholeLlvm[] = R"(
define void @any(ptr %out, ptr %in) {
  %v = load <4 x i32>, ptr %in, align 4
  %m = mul <4 x i32> %v, <i32 3, i32 3, i32 3, i32 3>
  %r = add <4 x i32> %m, <i32 1, i32 1, i32 1, i32 1>
  store <4 x i32> %r, ptr %out, align 4
  ret void
})";
constexpr char kWholeC[] = R"(
void whole(int* out, const int* in) {
  for (int i = 0; i < 4; ++i) out[i] = (int)((unsigned)in[i] * 3 + 1);
})";

v1::Graph Whole(absl::string_view text) {
  auto graph = ParseGraph(kWhole);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (graph.ok()) graph->mutable_nodes(9)->set_text(std::string(text));
  return graph.ok() ? *graph : v1::Graph();
}

void ExpectWhole(const absl::StatusOr<compiler::InterpResult>& got) {
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->written.at(0).bytes, (Row<int32_t>(compiler::DType::kInt32, {-20, 1, 16, -1073741823}).bytes));
}

TEST(CustomCode, AWholeProgramRunsOnTheCpu) {
  CpuEngine cpu;
  compiler::HostTensors arguments = Arguments();
  arguments.erase(2), arguments.erase(3);
  ExpectWhole(cpu.Run(Whole(kWholeLlvm), arguments, Allowing()));
}

TEST(CustomCode, AWholeProgramStandsInC) {
  CEngine engine;
  const auto number = engine.Add(Whole(kWholeC), Allowing());
  ASSERT_TRUE(number.ok()) << number.status();
  const absl::Status built = engine.Build();
  ASSERT_TRUE(built.ok()) << built;
  compiler::HostTensors arguments = Arguments();
  arguments.erase(2), arguments.erase(3);
  ExpectWhole(engine.Run(*number, arguments));
}

TEST(CustomCode, AProgramWithoutTextIsItsLinear) {
  v1::Graph graph = Whole("");
  graph.mutable_nodes(9)->set_op(v1::NOOP);
  graph.mutable_nodes(9)->clear_text();
  CpuEngine cpu;
  compiler::HostTensors arguments = Arguments();
  arguments.erase(2), arguments.erase(3);
  const auto got = cpu.Run(graph, arguments, ExactOptions());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->written.at(0).bytes, arguments.at(1).bytes);
}

TEST(CustomCode, BadProgramsAreRefusedWithTheReason) {
  struct Bad {
    const char* text;
    const char* says;
  };
  const Bad rows[] = {
      {"", "wants its text"},
      {"not LLVM IR", "no LLVM IR"},
      {"define void @f(ptr %a) { ret void }", "takes 1 arguments, and its LINEAR has 2"},
      {"define i32 @f(ptr %a, ptr %b) { ret i32 0 }", "is to return void"},
      {"declare void @abort()\ndefine void @f(ptr %a, ptr %b) { call void @abort() ret void }", "one function"},
  };
  CpuEngine cpu;
  for (const Bad& row : rows) {
    const auto got = cpu.Run(Whole(row.text), Arguments(), Allowing());
    ASSERT_FALSE(got.ok()) << row.text;
    EXPECT_EQ(DetailOf(got.status())->code(), v1::BAD_ARGUMENT) << got.status();
    EXPECT_NE(got.status().message().find(row.says), absl::string_view::npos) << got.status();
  }
  const auto refused = cpu.Run(Whole(kWholeLlvm), Arguments(), ExactOptions());
  EXPECT_EQ(DetailOf(refused.status())->code(), v1::NOT_ALLOWED) << refused.status();
  EXPECT_EQ(DetailOf(refused.status())->node(), 9u) << refused.status();
}

TEST(CustomCode, IsRefusedUnlessAllowed) {
  CpuEngine cpu;
  const auto refused = cpu.Run(Program(kLlvm), Arguments(), ExactOptions());
  EXPECT_EQ(DetailOf(refused.status())->code(), v1::NOT_ALLOWED) << refused.status();
  EXPECT_EQ(DetailOf(refused.status())->node(), 10u) << refused.status();
}

}  // namespace
}  // namespace kiln::testing
