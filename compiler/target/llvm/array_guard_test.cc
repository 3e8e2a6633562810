#include "compiler/target/llvm/array_guard.h"

#include <gtest/gtest.h>

#include <csignal>

#include "compiler/ir/build.h"
#include "compiler/target/llvm/program_emitter.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

namespace kiln::compiler {
namespace {

// Runs what `fill` makes of the module: a function named "f".
template <typename Fill>
void RunModule(Fill fill) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = std::make_unique<llvm::Module>("f", *context);
  fill(*module);
  auto jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::cantFail(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  llvm::cantFail(jit->lookup("f")).toPtr<void (*)(void**, int64_t, int64_t)>()(nullptr, 0, 1);
}

// Runs a program that stores to lanes `first`, first + 1 of an array of four, and
// loads them, where `gate` is open. What no pass would let through, it may do.
void Touch(int64_t first, bool gate, bool load) {
  Graph graph;
  UOp* array = graph.Make(Op::BUFFER, {ShapeSource(graph, {4})}, BufferArg{0, DType::kInt32, AddrSpace::kReg});
  UOp* zero = Idx(graph, first);
  UOp* one = Idx(graph, first + 1);
  UOp* places = graph.Make(Op::STACK, {zero, one});
  UOp* pointer = graph.Make(Op::INDEX, {array, places});
  UOp* value = ConstInt(graph, DType::kInt32, 7);
  UOp* open = ConstInt(graph, DType::kBool, gate);
  UOp* access = load ? graph.Make(Op::LOAD, {pointer, value, open}) : graph.Make(Op::STORE, {pointer, value, open});
  UOp* linear = graph.Make(Op::LINEAR, {array, zero, one, places, pointer, value, open, access}, KernelArg{"touch"});

  EmitOptions options;
  options.guard_arrays = true;
  RunModule([&](llvm::Module& module) { ASSERT_TRUE(EmitProgram(module, linear, "f", options).ok()); });
}

TEST(ArrayGuard, InsideNothingHappens) {
  for (bool load : {false, true}) {
    Touch(0, true, load);
    Touch(2, true, load);
    Touch(100, false, load);
  }
}

TEST(ArrayGuardDeathTest, OutsideTraps) {
  for (bool load : {false, true}) {
    EXPECT_EXIT(Touch(3, true, load), ::testing::KilledBySignal(SIGILL), "");
    EXPECT_EXIT(Touch(-1, true, load), ::testing::KilledBySignal(SIGILL), "");
    EXPECT_EXIT(Touch(int64_t{1} << 40, true, load), ::testing::KilledBySignal(SIGILL), "");
  }
}

// Writes past an array of five bytes as a fault of the code generator would: no
// check of a place stands before it.
void Overrun(int64_t byte) {
  RunModule([&](llvm::Module& module) {
    llvm::Function* function = CpuAbi().Declare(module, nullptr, "f");
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(module.getContext(), "entry", function));
    Graph graph;
    UOp* array = graph.Make(Op::BUFFER, {ShapeSource(graph, {5})}, BufferArg{0, DType::kInt8, AddrSpace::kReg});
    ArrayGuard guard(builder, function);
    llvm::Value* start = guard.AddArray(array);
    builder.CreateStore(builder.getInt8(1), builder.CreateGEP(builder.getInt8Ty(), start, builder.getInt64(byte)));
    guard.CheckZones();
    builder.CreateRetVoid();
  });
}

TEST(ArrayGuardDeathTest, AZoneThatChangedTraps) {
  Overrun(0);
  Overrun(4);
  EXPECT_EXIT(Overrun(-1), ::testing::KilledBySignal(SIGILL), "");
  EXPECT_EXIT(Overrun(5), ::testing::KilledBySignal(SIGILL), "");
}

}  // namespace
}  // namespace kiln::compiler
