// Products by warp groups (compiler/target/gpu/wgmma_product.h), in a kernel that does nothing else: their values on
// the machine for PTX against plain loops, and what NVIDIA's assembler makes of them.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/target/gpu/architectures.h"
#include "compiler/target/gpu/wgmma_product.h"
#include "compiler/target/llvm/codegen.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Verifier.h"
#include "tests/support/ptx/machine.h"
#include "tests/support/ptx/tensor_map.h"
#include "tests/support/ptxas.h"

namespace kiln::compiler {
namespace {

namespace ptx = kiln::testing::ptx;

// `count` products of m x reduced and reduced x n. A matrix lies row by row along the depth, or the other way round.
struct Product {
  int64_t m, n, reduced, count = 1;
  bool a_beside = false, b_beside = false;
  DType in = DType::kBfloat16;
};

WgmmaSide SideOf(int64_t size, int64_t reduced, bool beside) {
  WgmmaSide side;
  side.size = size;
  side.step = beside ? 1 : reduced;
  side.step_k = beside ? size : 1;
  return side;
}

// kernel(a, b, sums, map of a, map of b): a group is a tile, at group x * rows, y * columns, of product z.
std::string PtxOf(const Product& product, const WgmmaTile& tile) {
  auto target = GpuTarget("sm_90a");
  auto machine = MakeTargetMachine(*target);
  EXPECT_TRUE(machine.ok()) << machine.status();
  llvm::LLVMContext context;
  llvm::Module module("test", context);
  module.setDataLayout((*machine)->createDataLayout());
  module.setTargetTriple((*machine)->getTargetTriple());
  llvm::IRBuilder<> builder(context);
  auto* buffer = llvm::PointerType::get(context, 1);
  auto* pointer = llvm::PointerType::get(context, 0);
  auto* bytes = llvm::ArrayType::get(builder.getInt8Ty(), 128);
  auto* function = llvm::Function::Create(
      llvm::FunctionType::get(builder.getVoidTy(), {buffer, buffer, buffer, pointer, pointer}, false),
      llvm::Function::ExternalLinkage, "k", module);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function->addFnAttr("nvvm.maxntid", absl::StrCat(tile.items()));
  function->addFnAttr(llvm::Attribute::NoUnwind);
  for (unsigned n : {3u, 4u}) {
    function->addParamAttr(n, llvm::Attribute::getWithByValType(context, bytes));
    function->addParamAttr(n, llvm::Attribute::getWithAlignment(context, llvm::Align(64)));
    function->addParamAttr(n, llvm::Attribute::get(context, "nvvm.grid_constant"));
  }
  auto* shared = new llvm::GlobalVariable(module, llvm::ArrayType::get(builder.getInt8Ty(), 0), false,
                                          llvm::GlobalValue::ExternalLinkage, nullptr, "shared", nullptr,
                                          llvm::GlobalValue::NotThreadLocal, 3);
  shared->setAlignment(llvm::Align(kWgmmaAlignment));

  const auto number = [&](int64_t value) { return builder.getInt64(static_cast<uint64_t>(value)); };
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
  const auto special = [&](llvm::Intrinsic::ID id) {
    return builder.CreateZExt(builder.CreateIntrinsic(id, {}), builder.getInt64Ty());
  };
  llvm::Value* item = special(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  llvm::Value* which = special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z);
  WgmmaSide a = SideOf(product.m, product.reduced, product.a_beside);
  WgmmaSide b = SideOf(product.n, product.reduced, product.b_beside);
  a.first = builder.CreateMul(special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x), number(tile.rows));
  b.first = builder.CreateMul(special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y), number(tile.columns));
  unsigned argument = 0;
  for (WgmmaSide* side : {&a, &b}) {
    side->pointer = function->getArg(argument);
    side->map = function->getArg(3 + argument++);
    side->matrix = product.count > 1 ? which : nullptr;
    side->offset = builder.CreateAdd(builder.CreateMul(which, number(side->size * product.reduced)),
                                     builder.CreateMul(side->first, number(side->step)));
  }
  llvm::Value* address = builder.CreateOr(builder.CreatePtrToInt(a.pointer, builder.getInt64Ty()),
                                          builder.CreatePtrToInt(b.pointer, builder.getInt64Ty()));
  auto* aligned = llvm::BasicBlock::Create(context, "aligned", function);
  auto* anywhere = llvm::BasicBlock::Create(context, "anywhere", function);
  builder.CreateCondBr(builder.CreateICmpEQ(builder.CreateAnd(address, number(15)), number(0)), aligned, anywhere);
  for (llvm::BasicBlock* way : {aligned, anywhere}) {
    builder.SetInsertPoint(way);
    const auto sums = EmitWgmma(builder, tile, a, b, shared, way == aligned);
    for (size_t n = 0; n < sums.size(); ++n) {
      const auto i = static_cast<int64_t>(n) / (tile.columns / 4), j = static_cast<int64_t>(n) / 2 % (tile.columns / 8),
                 c = static_cast<int64_t>(n) % 2;
      // Row t / 128 * 64 + t % 128 / 32 * 16 + t % 32 / 4 + 8 i.
      llvm::Value* row = builder.CreateAdd(
          builder.CreateMul(builder.CreateUDiv(item, number(32)), number(16)),
          builder.CreateAdd(builder.CreateUDiv(builder.CreateURem(item, number(32)), number(4)), number(8 * i)));
      llvm::Value* column =
          builder.CreateAdd(builder.CreateMul(builder.CreateURem(item, number(4)), number(2)), number(8 * j + c));
      row = builder.CreateAdd(a.first, row);
      column = builder.CreateAdd(b.first, column);
      auto* store = llvm::BasicBlock::Create(context, "store", function);
      auto* next = llvm::BasicBlock::Create(context, "next", function);
      builder.CreateCondBr(builder.CreateAnd(builder.CreateICmpULT(row, number(product.m)),
                                             builder.CreateICmpULT(column, number(product.n))),
                           store, next);
      builder.SetInsertPoint(store);
      llvm::Value* at = builder.CreateAdd(
          builder.CreateMul(builder.CreateAdd(builder.CreateMul(which, number(product.m)), row), number(product.n)),
          column);
      builder.CreateStore(sums[n], builder.CreateGEP(builder.getFloatTy(), function->getArg(2), at));
      builder.CreateBr(next);
      builder.SetInsertPoint(next);
    }
    builder.CreateRetVoid();
  }
  EXPECT_FALSE(llvm::verifyModule(module, &llvm::errs()));
  Optimize(module, **machine);
  return EmitAssembly(module, **machine);
}

uint16_t BitsOf(DType dtype, int value) {
  static constexpr uint16_t kHalves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
  if (dtype == DType::kFloat16) return static_cast<uint16_t>(kHalves[std::abs(value)] | (value < 0 ? 0x8000 : 0));
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
}

// Elements in memory that begins at a multiple of 16, or 2 bytes behind one.
struct Buffer {
  Buffer(size_t elements, bool aligned) : storage(elements + 16) {
    const auto address = reinterpret_cast<uintptr_t>(storage.data());
    data = storage.data() + (16 - address % 16) % 16 / 2 + (aligned ? 0 : 1);
  }
  std::vector<uint16_t> storage;
  uint16_t* data;
};

void Check(const Product& product, const WgmmaTile& shape, bool aligned) {
  WgmmaTile tile = shape;
  tile.in = product.in;
  tile.reduced = product.reduced;
  const auto a_value = [](int64_t z, int64_t row, int64_t k) {
    return static_cast<int>((row * 3 + k * 5 + z + row * k % 7) % 9) - 4;
  };
  const auto b_value = [](int64_t z, int64_t column, int64_t k) {
    return static_cast<int>((column * 7 + k * 2 + z + column * k % 5) % 9) - 4;
  };
  const auto place = [&](int64_t z, int64_t row, int64_t k, int64_t size, bool beside) {
    return static_cast<size_t>(z * size * product.reduced + (beside ? k * size + row : row * product.reduced + k));
  };
  Buffer a(static_cast<size_t>(product.count * product.m * product.reduced), aligned);
  Buffer b(static_cast<size_t>(product.count * product.n * product.reduced), aligned);
  for (int64_t z = 0; z < product.count; ++z) {
    for (int64_t k = 0; k < product.reduced; ++k) {
      for (int64_t row = 0; row < product.m; ++row)
        a.data[place(z, row, k, product.m, product.a_beside)] = BitsOf(product.in, a_value(z, row, k));
      for (int64_t row = 0; row < product.n; ++row)
        b.data[place(z, row, k, product.n, product.b_beside)] = BitsOf(product.in, b_value(z, row, k));
    }
  }
  const auto module = ptx::Module::Parse(PtxOf(product, tile));
  ASSERT_TRUE(module.ok()) << module.status();
  std::vector<float> sums(static_cast<size_t>(product.count * product.m * product.n), -1e9f);
  const auto bytes = [&](int64_t size) { return static_cast<uint64_t>(2 * product.count * size * product.reduced); };
  struct alignas(64) Map {
    char bytes[ptx::kTensorMapBytes] = {};
  } maps[2];
  for (int side = 0; aligned && side < 2; ++side) {
    const int64_t size = side == 0 ? product.m : product.n;
    const bool beside = side == 0 ? product.a_beside : product.b_beside;
    const WgmmaBox box = WgmmaBoxOf(side == 0 ? tile.rows : tile.columns, beside);
    ptx::TensorMap map;
    map.address = reinterpret_cast<uint64_t>(side == 0 ? a.data : b.data);
    map.element_bytes = 2;
    map.rank = product.count > 1 ? 3 : 2;
    const auto inner = static_cast<uint64_t>(beside ? size : product.reduced),
               outer = static_cast<uint64_t>(beside ? product.reduced : size);
    map.sizes = {inner, outer, static_cast<uint64_t>(product.count)};
    map.strides = {2 * inner, 2 * inner * outer};
    map.box = {static_cast<uint32_t>(box.inner), static_cast<uint32_t>(box.outer), 1};
    map.swizzle_bytes = kWgmmaSwizzle;
    ASSERT_TRUE(EncodeTensorMap(map, maps[side].bytes));
  }
  const auto a_address = reinterpret_cast<uint64_t>(a.data), b_address = reinterpret_cast<uint64_t>(b.data),
             address = reinterpret_cast<uint64_t>(sums.data());
  ptx::LaunchShape launch;
  launch.groups = {static_cast<uint32_t>((product.m + tile.rows - 1) / tile.rows),
                   static_cast<uint32_t>((product.n + tile.columns - 1) / tile.columns),
                   static_cast<uint32_t>(product.count)};
  launch.items[0] = static_cast<uint32_t>(tile.items());
  launch.dynamic_shared_bytes = static_cast<uint32_t>(WgmmaSharedBytes(tile));
  ptx::LaunchLimits limits;
  limits.detect_global_races = true;
  const absl::Status ran = (*module)->Launch(
      *(*module)->Find("k"), launch, {&a_address, &b_address, &address, maps[0].bytes, maps[1].bytes},
      {{address, 4 * sums.size(), true}, {a_address, bytes(product.m), false}, {b_address, bytes(product.n), false}},
      limits);
  ASSERT_TRUE(ran.ok()) << ran;
  for (int64_t z = 0; z < product.count; ++z) {
    for (int64_t row = 0; row < product.m; ++row) {
      for (int64_t column = 0; column < product.n; ++column) {
        int want = 0;
        for (int64_t k = 0; k < product.reduced; ++k) want += a_value(z, row, k) * b_value(z, column, k);
        ASSERT_EQ(sums[static_cast<size_t>((z * product.m + row) * product.n + column)], want)
            << z << ": " << row << ", " << column;
      }
    }
  }
}

constexpr WgmmaTile kSmall = {64, 64}, kSquare = {128, 128}, kWide = {128, 256};

TEST(Wgmma, OfRowsAlongTheDepth) {
  Check({128, 128, 64}, kSquare, true);
  // Edges, and a ring that goes round.
  Check({131, 137, 328}, kSquare, true);
  Check({100, 300, 400}, kWide, true);
  Check({70, 65, 8, 1, false, false, DType::kFloat16}, kSmall, true);
}

TEST(Wgmma, OfRowsBesideEachOther) {
  Check({136, 144, 67, 1, true, true}, kSquare, true);
  Check({128, 264, 136, 1, false, true}, kWide, true);
  Check({136, 131, 72, 1, true, false, DType::kFloat16}, kSquare, true);
}

TEST(Wgmma, OfSeveralMatrices) {
  Check({67, 66, 72, 3}, kSmall, true);
  Check({72, 80, 9, 2, true, true}, kSmall, true);
}

TEST(Wgmma, WithoutTheEngine) {
  Check({131, 137, 73}, kSquare, false);
  Check({65, 129, 66, 1, true, true}, kSquare, false);
  Check({3, 5, 1, 2, true, false, DType::kFloat16}, kSmall, false);
  Check({128, 256, 80}, kWide, false);
}

TEST(Wgmma, PtxasKeepsSumsInRegistersAndProductsAsynchronous) {
  const char* ptxas = std::getenv("KILN_PTXAS");
  if (ptxas == nullptr) GTEST_SKIP() << "there is no ptxas: ./dev setup --cuda installs one, KILN_PTXAS names one";
  for (WgmmaTile tile : {kSmall, kSquare, kWide}) {
    for (const bool beside : {false, true}) {
      const Product product = {1024, 1024, 1024, 1, beside, beside};
      tile.reduced = product.reduced;
      const testing::Assembled assembled = testing::Assemble(ptxas, "sm_90a", PtxOf(product, tile));
      EXPECT_TRUE(assembled.taken) << assembled.said;
      const std::string& said = assembled.said;
      EXPECT_TRUE(absl::StrContains(said, "0 bytes spill stores, 0 bytes spill loads")) << said;
      // C75..: products that are made one after the other, or setmaxnreg that is not heeded.
      EXPECT_FALSE(absl::StrContains(said, "C75")) << said;
      EXPECT_FALSE(absl::StrContains(said, "warning")) << said;
    }
  }
}

}  // namespace
}  // namespace kiln::compiler
