#include "runtime/testing/programs.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "runtime/testing/compile_ir.h"

namespace kiln::runtime::testing {
namespace {

constexpr char kIr[] = R"(
declare float @truncf(float)

define void @add(ptr %b, i64 %begin, i64 %end, ptr %stop) {
entry:
  %out = load ptr, ptr %b
  %s1 = getelementptr ptr, ptr %b, i64 1
  %x = load ptr, ptr %s1
  %s2 = getelementptr ptr, ptr %b, i64 2
  %y = load ptr, ptr %s2
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %exit
body:
  %px = getelementptr float, ptr %x, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %po = getelementptr float, ptr %out, i64 %i
  %vx = load float, ptr %px
  %vy = load float, ptr %py
  %v = fadd float %vx, %vy
  store float %v, ptr %po
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}

define void @double_it(ptr %b, i64 %begin, i64 %end, ptr %stop) {
entry:
  %x = load ptr, ptr %b
  %cancelled = load ptr, ptr %stop
  %second = getelementptr ptr, ptr %stop, i64 1
  %late = load ptr, ptr %second
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %look, label %exit
look:
  %c = load atomic i8, ptr %cancelled monotonic, align 1
  %l = load atomic i8, ptr %late monotonic, align 1
  %either = or i8 %c, %l
  %go_on = icmp eq i8 %either, 0
  br i1 %go_on, label %body, label %exit
body:
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p
  %w = fadd float %v, %v
  store float %w, ptr %p
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}

define void @trunc_of(ptr %b, i64 %begin, i64 %end, ptr %stop) {
entry:
  %out = load ptr, ptr %b
  %s1 = getelementptr ptr, ptr %b, i64 1
  %x = load ptr, ptr %s1
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %exit
body:
  %p = getelementptr float, ptr %x, i64 %i
  %q = getelementptr float, ptr %out, i64 %i
  %v = load float, ptr %p
  %w = call float @truncf(float %v)
  store float %w, ptr %q
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}

define void @until_stopped(ptr %b, i64 %begin, i64 %end, ptr %stop) {
entry:
  %flag = load ptr, ptr %b
  store i8 1, ptr %flag
  %cancelled = load ptr, ptr %stop
  %second = getelementptr ptr, ptr %stop, i64 1
  %late = load ptr, ptr %second
  br label %again
again:
  %c = load atomic volatile i8, ptr %cancelled monotonic, align 1
  %l = load atomic volatile i8, ptr %late monotonic, align 1
  %either = or i8 %c, %l
  %zero = icmp eq i8 %either, 0
  br i1 %zero, label %again, label %exit
exit:
  ret void
}

define void @spin(ptr %b, i64 %begin, i64 %end, ptr %stop) {
entry:
  %flag = load ptr, ptr %b
  br label %again
again:
  %v = load atomic volatile i8, ptr %flag acquire, align 1
  %zero = icmp eq i8 %v, 0
  br i1 %zero, label %again, label %exit
exit:
  ret void
}
)";

v1::Kernel& AddKernel(v1::Executable& executable, const std::string& symbol, uint64_t iterations, uint64_t grain) {
  v1::Kernel& kernel = *executable.add_kernels();
  kernel.set_symbol(symbol);
  kernel.set_iterations(iterations);
  kernel.set_grain(grain);
  return kernel;
}

void AddOperand(v1::Step& step, v1::Operand::Space space, uint32_t index, uint64_t offset, bool written) {
  v1::Operand& operand = *step.add_operands();
  operand.set_space(space);
  operand.set_index(index);
  operand.set_offset(offset);
  operand.set_written(written);
}

void AddParameter(v1::Executable& executable, uint32_t slot, v1::DType dtype, int64_t n, uint64_t bytes, bool written) {
  v1::Signature::Parameter& parameter = *executable.mutable_signature()->add_parameters();
  parameter.set_slot(slot);
  parameter.set_dtype(dtype);
  parameter.add_shape(n);
  parameter.set_bytes(bytes);
  parameter.set_written(written);
}

v1::Signature::Result& AddResult(v1::Executable& executable, int64_t n) {
  v1::Signature::Result& result = *executable.mutable_signature()->add_results();
  result.set_dtype(v1::FLOAT32);
  result.add_shape(n);
  result.set_bytes(n * sizeof(float));
  return result;
}

v1::Executable Base(const v1::Target& target) {
  v1::Executable executable;
  *executable.mutable_target() = target;
  executable.set_object(KernelsObject());
  return executable;
}

}  // namespace

const std::string& KernelsObject() {
  static const std::string* const object = new std::string(CompileIr(kIr));
  return *object;
}

v1::Executable AddProgram(int64_t n, const v1::Target& target) {
  v1::Executable executable = Base(target);
  AddKernel(executable, "add", n, 1024);
  AddParameter(executable, 0, v1::FLOAT32, n, n * sizeof(float), false);
  AddParameter(executable, 1, v1::FLOAT32, n, n * sizeof(float), false);
  AddResult(executable, n);
  // t stands behind 64 bytes that nothing uses, so that offsets matter.
  executable.set_arena_bytes(64 + n * sizeof(float));
  std::string constants(64, '\0');
  const std::vector<float> halves(n, 0.5f);
  constants.append(reinterpret_cast<const char*>(halves.data()), n * sizeof(float));
  executable.set_constants(constants);

  v1::Step& first = *executable.add_steps();
  AddOperand(first, v1::Operand::ARENA, 0, 64, true);
  AddOperand(first, v1::Operand::PARAMETER, 0, 0, false);
  AddOperand(first, v1::Operand::PARAMETER, 1, 0, false);
  v1::Step& second = *executable.add_steps();
  AddOperand(second, v1::Operand::RESULT, 0, 0, true);
  AddOperand(second, v1::Operand::ARENA, 0, 64, false);
  AddOperand(second, v1::Operand::CONSTANTS, 0, 64, false);
  return executable;
}

v1::Executable DoubleProgram(int64_t n, const v1::Target& target) {
  v1::Executable executable = Base(target);
  AddKernel(executable, "double_it", n, 1024).set_stops(true);
  AddParameter(executable, 7, v1::FLOAT32, n, n * sizeof(float), true);
  AddResult(executable, n).set_aliases(0);
  AddOperand(*executable.add_steps(), v1::Operand::PARAMETER, 0, 0, true);
  return executable;
}

v1::Executable PreparedProgram(int64_t n, const v1::Target& target) {
  v1::Executable executable = Base(target);
  AddKernel(executable, "add", n, 1024);
  AddParameter(executable, 0, v1::FLOAT32, n, n * sizeof(float), false);
  AddParameter(executable, 1, v1::FLOAT32, n, n * sizeof(float), false);
  AddResult(executable, n);
  v1::Preparation& twice = *executable.add_preparations();
  twice.set_parameter(1);
  twice.set_bytes(n * sizeof(float));
  twice.set_key(std::string(32, '2'));
  AddOperand(*twice.mutable_step(), v1::Operand::PREPARED, 0, 0, true);
  AddOperand(*twice.mutable_step(), v1::Operand::PARAMETER, 1, 0, false);
  AddOperand(*twice.mutable_step(), v1::Operand::PARAMETER, 1, 0, false);
  v1::Step& step = *executable.add_steps();
  AddOperand(step, v1::Operand::RESULT, 0, 0, true);
  AddOperand(step, v1::Operand::PARAMETER, 0, 0, false);
  AddOperand(step, v1::Operand::PREPARED, 0, 0, false);
  return executable;
}

v1::Executable SpinProgram(const v1::Target& target) {
  v1::Executable executable = Base(target);
  AddKernel(executable, "spin", 1, 1);
  AddParameter(executable, 0, v1::UINT8, 1, 1, false);
  AddOperand(*executable.add_steps(), v1::Operand::PARAMETER, 0, 0, false);
  // Said to be long, so that it never runs on the thread that submits it.
  executable.mutable_cost()->set_flops(uint64_t{1} << 40);
  return executable;
}

v1::Executable EndlessProgram(const v1::Target& target) {
  v1::Executable executable = Base(target);
  AddKernel(executable, "until_stopped", 1, 1).set_stops(true);
  AddParameter(executable, 0, v1::UINT8, 1, 1, true);
  AddOperand(*executable.add_steps(), v1::Operand::PARAMETER, 0, 0, true);
  return executable;
}

hal::BufferSlice Floats(hal::Device& device, const std::vector<float>& values) {
  auto buffer = device.allocator().Allocate(values.size() * sizeof(float), hal::MemoryUse::kClient);
  KILN_CHECK(buffer.ok());
  if (!values.empty()) std::memcpy((*buffer)->host_data(), values.data(), values.size() * sizeof(float));
  return hal::BufferSlice::Whole(*std::move(buffer));
}

std::vector<float> ReadFloats(const hal::BufferSlice& slice) {
  std::vector<float> values(slice.bytes / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), slice.host_data(), slice.bytes);
  return values;
}

}  // namespace kiln::runtime::testing
