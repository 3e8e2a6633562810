// Which instruction a product by waves becomes, on each GPU; where there is none it goes through shared memory.
// NVIDIA's assembler takes all of them, if there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/target/gpu/architectures.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/engines/ptx_engine.h"
#include "tests/support/ptxas.h"

namespace kiln::testing {
namespace {

struct Row {
  const char* product;  // ends the case's name
  std::vector<std::string> architectures;
  const char* instruction;
  bool fast_math = false;  // without it there is none
};

const std::vector<Row>& Rows() {
  static const std::vector<std::string> nvidia = {"sm_80", "sm_90a", "sm_100a", "sm_120a"}, cdna = {"gfx90a", "gfx942"},
                                        ada = {"sm_90a", "sm_100a", "sm_120a"}, rdna = {"gfx1100", "gfx1200"},
                                        rdna4 = {"gfx1200"};
  static const auto& rows = *new std::vector<Row>{
      {"32, 16x8x16 of float16 into float16", nvidia, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"},
      {"32, 16x8x8 of float16 into float16", nvidia, "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16"},
      {"32, 16x8x16 of bfloat16 into float32", nvidia, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"},
      {"32, 16x8x8 of bfloat16 into float32", nvidia, "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32"},
      {"32, 16x8x8 of float32 into float32", nvidia, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", true},
      {"32, 16x8x32 of int8 into int32", nvidia, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"},
      {"32, 16x8x32 of uint8 into int32", nvidia, "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32"},
      {"32, 16x8x32 of float8_e4m3 into float32", ada, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"},
      {"32, 16x8x32 of float8_e5m2 into float32", ada, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32"},
      {"32, 8x8x4 of float64 into float64", nvidia, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"},
      {"32, 16x16x16 of float16 into float32", rdna, "v_wmma_f32_16x16x16_f16"},
      {"32, 16x16x16 of bfloat16 into float32", rdna, "v_wmma_f32_16x16x16_bf16"},
      {"32, 16x16x16 of int8 into int32", rdna, "v_wmma_i32_16x16x16_iu8"},
      {"32, 16x16x16 of uint8 into int32", rdna, "v_wmma_i32_16x16x16_iu8"},
      {"32, 16x16x16 of float8_e4m3 into float32", rdna4, "v_wmma_f32_16x16x16_fp8_fp8"},
      {"32, 16x16x16 of float8_e5m2 into float32", rdna4, "v_wmma_f32_16x16x16_bf8_bf8"},
      {"64, 16x16x16 of float16 into float32", cdna, "v_mfma_f32_16x16x16"},
      {"64, 16x16x16 of bfloat16 into float32", cdna, "v_mfma_f32_16x16x16"},
      {"64, 32x32x8 of float16 into float32", cdna, "v_mfma_f32_32x32x8"},
      {"64, 32x32x8 of bfloat16 into float32", cdna, "v_mfma_f32_32x32x8"},
      {"64, 16x16x16 of int8 into int32", {"gfx90a"}, "v_mfma_i32_16x16x16i8"},
      {"64, 32x32x8 of int8 into int32", {"gfx90a"}, "v_mfma_i32_32x32x8i8"},
      {"64, 16x16x32 of int8 into int32", {"gfx942"}, "v_mfma_i32_16x16x32_i8"},
      {"64, 32x32x16 of int8 into int32", {"gfx942"}, "v_mfma_i32_32x32x16_i8"},
      {"64, 16x16x32 of float8_e4m3_fnuz into float32", {"gfx942"}, "v_mfma_f32_16x16x32_fp8_fp8"},
      {"64, 32x32x16 of float8_e5m2_fnuz into float32", {"gfx942"}, "v_mfma_f32_32x32x16_bf8_bf8"},
      {"64, 16x16x4 of float32 into float32", cdna, "v_mfma_f32_16x16x4"},
      {"64, 32x32x2 of float32 into float32", cdna, "v_mfma_f32_32x32x2"},
      {"64, 16x16x4 of float64 into float64", cdna, "v_mfma_f64_16x16x4"},
  };
  return rows;
}

class AssemblyCollector final : public compiler::CompileObserver {
 public:
  void OnPass(const compiler::PassRecord& record) override {
    if (record.name == "assembly") text = record.text();
  }
  bool WantsAssembly() const override { return true; }
  std::string text;
};

class TensorCores : public ::testing::TestWithParam<compiler::GpuArchitecture> {};

TEST_P(TensorCores, AreWhatProductsByWavesBecome) {
  const std::string name = GetParam().name;
  size_t found = 0;
  for (const ProgramCase& test : WaveCases()) {
    SCOPED_TRACE(test.name);
    const auto row = std::find_if(Rows().begin(), Rows().end(),
                                  [&](const Row& each) { return absl::EndsWith(test.name, each.product); });
    ASSERT_NE(row, Rows().end());
    AssemblyCollector assembly;
    compiler::Options options;
    options.fast_math = row->fast_math;
    const auto made = compiler::Compile(test.graph, *compiler::GpuTarget(name), options, &assembly);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_TRUE(made->target().features().empty());  // of which a device would have to have each
    const auto& has = row->architectures;
    const bool wanted = std::find(has.begin(), has.end(), name) != has.end();
    EXPECT_EQ(absl::StrContains(assembly.text, row->instruction), wanted) << assembly.text;
    EXPECT_EQ(made->kernels(0).launch().static_shared_bytes() == 0, wanted);
    found += wanted ? 1 : 0;
    const char* ptxas = std::getenv("KILN_PTXAS");
    if (ptxas == nullptr || GetParam().kind != v1::Target::NVPTX) continue;
    const Assembled assembled = Assemble(ptxas, name, made->object());
    EXPECT_TRUE(assembled.taken) << assembled.said << made->object();
  }
  EXPECT_GE(found, 4u);
}

INSTANTIATE_TEST_SUITE_P(Architectures, TensorCores, ::testing::ValuesIn(compiler::GpuArchitectures()),
                         [](const auto& info) { return std::string(info.param.name); });

// Factors of float32 are what they are but under fast_math, where they are rounded to 10 bits, ties away from zero.
TEST(Tf32, IsForFastMathAlone) {
  const auto cases = WaveCases();
  const auto test = std::find_if(cases.begin(), cases.end(), [](const ProgramCase& each) {
    return absl::EndsWith(each.name, "16x8x8 of float32 into float32");
  });
  ASSERT_NE(test, cases.end());
  for (const bool fast_math : {false, true}) {
    compiler::Options options;
    options.fast_math = fast_math;
    const auto whole = PtxEngine("sm_80").Run(test->graph, test->arguments, options);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->written.at(0).bytes, test->expected.at(0).bytes);
    auto arguments = test->arguments;
    const auto fill = [&](uint32_t slot, float value) {
      std::string& bytes = arguments.at(slot).bytes;
      for (size_t at = 0; at < bytes.size(); at += sizeof(value)) std::memcpy(&bytes[at], &value, sizeof(value));
    };
    fill(0, 0.0F);
    fill(1, 1 + 0x1p-11F);
    fill(2, 1.0F);
    const auto rounded = PtxEngine("sm_80").Run(test->graph, arguments, options);
    ASSERT_TRUE(rounded.ok()) << rounded.status();
    fill(0, fast_math ? 8 + 0x8p-10F : 8 + 0x8p-11F);
    EXPECT_EQ(rounded->written.at(0).bytes, arguments.at(0).bytes) << fast_math;
    const auto made = compiler::Compile(test->graph, *compiler::GpuTarget("sm_80"), options);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(absl::StrContains(made->object(), "tf32"), fast_math);
  }
}

TEST(TensorCoreRows, AreAllCases) { EXPECT_EQ(WaveCases().size(), Rows().size()); }

}  // namespace
}  // namespace kiln::testing
