// Tested by batcher_test.cc and batcher_ends_test.cc, which have it.
#include "server/engine/batching/batcher_fixture.h"

#include <gtest/gtest.h>

#include <tuple>

namespace kiln::server {
namespace {

template <typename Tensor>
void Add(Tensor* tensor, int64_t rows_each) {
  tensor->set_dtype(v1::INT8);
  tensor->add_shape(rows_each == 0 ? 1 : 4 * rows_each);
  if (rows_each == 0) return tensor->set_bytes(1);
  tensor->add_shape(1 << 20);
  tensor->set_bytes(static_cast<uint64_t>(4 * rows_each) << 20);
  for (uint32_t axis : {0u, 1u}) {
    auto* symbolic = tensor->add_symbolic();
    symbolic->set_axis(axis);
    const auto add = [&](v1::SizeExpr::Op op, int64_t value) {
      auto* token = symbolic->mutable_size()->add_token();
      token->set_op(op);
      token->set_value(value);
    };
    add(v1::SizeExpr::VARIABLE, axis);
    if (axis == 1) continue;
    add(v1::SizeExpr::CONST, rows_each);
    add(v1::SizeExpr::MUL, 0);
  }
}

v1::Executable TheExecutable(const v1::Target& target) {
  v1::Executable executable;
  *executable.mutable_target() = target;
  v1::Kernel* kernel = executable.add_kernels();
  kernel->set_symbol("k");
  kernel->set_iterations(1);
  v1::Step* step = executable.add_steps();
  const auto operand = [step](v1::Operand::Space space, uint32_t index, bool written) {
    v1::Operand* made = step->add_operands();
    made->set_space(space);
    made->set_index(index);
    made->set_written(written);
  };
  operand(v1::Operand::PARAMETER, 0, false);
  operand(v1::Operand::PARAMETER, 1, false);
  operand(v1::Operand::RESULT, 0, true);
  operand(v1::Operand::RESULT, 1, true);
  v1::Signature& signature = *executable.mutable_signature();
  signature.add_parameters()->set_slot(kX);
  Add(signature.mutable_parameters(0), 1);
  signature.add_parameters()->set_slot(kWeights);
  Add(signature.mutable_parameters(1), 0);
  Add(signature.add_results(), 2);
  Add(signature.add_results(), 0);
  for (const auto& [slot, name, most] : {std::tuple(kRows, "n", 4), std::tuple(kTokens, "t", 1 << 20)}) {
    v1::Signature::Variable* variable = signature.add_variables();
    variable->set_slot(slot);
    variable->set_name(name);
    variable->set_min_value(0);
    variable->set_max_value(most);
    variable->set_row_wise(slot == kRows);
  }
  return executable;
}

}  // namespace

BatcherFixture::BatcherFixture() {
  auto program = runtime::Program::Load(TheExecutable(device_->target()), *device_);
  EXPECT_TRUE(program.ok()) << program.status();
  program_->program = *std::move(program);
  program_->rows = RowsOf(program_->signature());
  weights_ = std::make_shared<BufferRecord>();
}

const Argument& BatcherFixture::ArgumentOf(const Asked& asked, uint32_t slot) {
  for (const Argument& argument : asked.request.arguments) {
    if (argument.slot == slot) return argument;
  }
  ADD_FAILURE() << "no slot " << slot;
  return asked.request.arguments[0];
}

void BatcherFixture::Answer(Asked asked) {
  const TensorView& x = XOf(asked);
  EXPECT_EQ(std::get<int64_t>(ArgumentOf(asked, kRows).value), x.shape[0]);
  EXPECT_EQ(std::get<BufferTable::Record>(ArgumentOf(asked, kWeights).value), weights_);
  ExecuteResult result;
  result.timing.device = micros_;
  result.results.resize(2);
  const auto row = static_cast<size_t>(x.shape[1]);
  for (size_t i = 0; i < x.data.size(); i += row)
    absl::StrAppend(&result.results[0].data, x.data.substr(i, row), x.data.substr(i, row));
  result.results[0].shape = {2 * x.shape[0], x.shape[1]};
  result.results[1].data = "z";
  result.results[1].shape = {1};
  result.results[1].index = 1;
  asked.done(std::move(result));
}

void BatcherFixture::End(const std::string& rows) {
  ASSERT_FALSE(asked_.empty());
  Asked first = First();
  EXPECT_EQ(XOf(first).data, rows);
  Answer(std::move(first));
}

}  // namespace kiln::server
