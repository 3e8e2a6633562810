#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "base/error.h"
#include "runtime/plan/check_executable.h"

namespace kiln::runtime {
namespace {

// A kernel of a variable, a parameter of 100 rows of 64 halves that are 72 apart, and a result; one tensor map.
v1::Executable Program() {
  v1::Executable executable;
  executable.mutable_target()->set_kind(v1::Target::NVPTX);
  v1::Kernel& kernel = *executable.add_kernels();
  kernel.set_symbol("k");
  v1::TensorMap& map = *kernel.mutable_launch()->add_tensor_maps();
  map.set_operand(1);
  map.set_dtype(v1::BFLOAT16);
  map.add_sizes(64);
  map.add_sizes(100);
  map.add_strides_bytes(144);
  map.add_box(64);
  map.add_box(128);
  map.set_swizzle_bytes(128);
  v1::Step& step = *executable.add_steps();
  step.add_operands()->set_space(v1::Operand::VARIABLE);
  step.add_operands()->set_space(v1::Operand::PARAMETER);
  v1::Operand& written = *step.add_operands();
  written.set_space(v1::Operand::RESULT);
  written.set_written(true);
  v1::Signature& signature = *executable.mutable_signature();
  v1::Signature::Parameter& parameter = *signature.add_parameters();
  parameter.set_dtype(v1::BFLOAT16);
  parameter.add_shape(99 * 72 + 64);
  parameter.set_bytes((99 * 72 + 64) * 2);
  v1::Signature::Result& result = *signature.add_results();
  result.set_dtype(v1::UINT8);
  result.add_shape(16);
  result.set_bytes(16);
  signature.add_variables()->set_slot(7);
  return executable;
}

struct Change {
  const char* field;
  std::function<void(v1::Executable&, v1::TensorMap&)> change;
};

TEST(CheckTensorMaps, TakesWhatTheEngineTakesAndNothingElse) {
  const v1::Executable right = Program();
  EXPECT_EQ(CheckExecutable(right, right.target()), absl::OkStatus());
  const auto of = [](auto set) { return [set](v1::Executable&, v1::TensorMap& map) { set(map); }; };
  const Change changes[] = {
      {".operand", of([](auto& map) { map.set_operand(3); })},
      {".operand", of([](auto& map) { map.set_operand(0); })},
      {".dtype", of([](auto& map) { map.set_dtype(v1::VOID); })},
      {".sizes", of([](auto& map) { map.clear_sizes(); })},
      {".sizes", of([](auto& map) { map.set_sizes(0, 0); })},
      {".sizes", of([](auto& map) { map.set_sizes(1, (uint64_t{1} << 32) + 1); })},
      {"", of([](auto& map) { map.add_sizes(1); })},
      {"", of([](auto& map) { map.add_box(1); })},
      {".strides_bytes", of([](auto& map) { map.set_strides_bytes(0, 136); })},
      {".strides_bytes", of([](auto& map) { map.set_strides_bytes(0, uint64_t{1} << 40); })},
      {".box", of([](auto& map) { map.set_box(1, 257); })},
      {".box", of([](auto& map) { map.set_box(0, 0); })},
      {".box", of([](auto& map) { map.set_box(0, 4); })},
      {".box", of([](auto& map) { map.set_box(0, 72); })},
      {".swizzle_bytes", of([](auto& map) { map.set_swizzle_bytes(16); })},
      {".offset_bytes", of([](auto& map) { map.set_offset_bytes(8); })},
      // Beyond the operand, by a little and by far.
      {"", of([](auto& map) { map.set_offset_bytes(16); })},
      {"", of([](auto& map) { map.set_sizes(1, 101); })},
      {"",
       of([](auto& map) { map.set_sizes(1, uint64_t{1} << 32), map.set_strides_bytes(0, (uint64_t{1} << 40) - 16); })},
      {".operand",
       [](auto& executable, auto&) {
         auto& symbolic = *executable.mutable_signature()->mutable_parameters(0)->add_symbolic();
         auto& token = *symbolic.mutable_size()->add_token();
         token.set_op(v1::SizeExpr::CONST);
         token.set_value(3);
       }},
      {"", [](auto& executable, auto&) { executable.mutable_target()->set_kind(v1::Target::AMDGPU); }},
      {"", [](auto& executable, auto&) { executable.mutable_target()->set_kind(v1::Target::CPU); }},
  };
  for (const Change& each : changes) {
    v1::Executable wrong = right;
    each.change(wrong, *wrong.mutable_kernels(0)->mutable_launch()->mutable_tensor_maps(0));
    const absl::Status status = CheckExecutable(wrong, wrong.target());
    ASSERT_FALSE(status.ok()) << &each - changes;
    EXPECT_EQ(DetailOf(status)->code(), v1::INTERNAL_FAULT) << status;
    EXPECT_EQ(DetailOf(status)->field(), absl::StrCat("kernels[0].launch.tensor_maps[0]", each.field)) << status;
  }
}

}  // namespace
}  // namespace kiln::runtime
