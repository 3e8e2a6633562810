#include "compiler/target/gpu/wgmma_product.h"

#include <algorithm>

#include "base/check.h"
#include "compiler/target/gpu/wgmma.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace kiln::compiler {
namespace {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

constexpr int64_t kDepth = Wgmma::kLine / 2;  // of an iteration: 128 bytes of a row, which is what a swizzle spans
constexpr int64_t kRow = Wgmma::kLine;        // bytes
constexpr int64_t kGroupRows = 64;
constexpr int64_t kWarpGroup = 128, kWarps = 4;
constexpr int64_t kMaxBox = 256;
constexpr int64_t kMaxStages = 4;
constexpr int64_t kMaxShared = 227 << 10;
constexpr unsigned kClusterSpace = 7;

// Of 65536 registers each of 384 items has 168. What the producer does without goes to those who multiply: the sums
// take up to 128, and what follows the product is theirs, too.
constexpr int64_t kMultipliers = 2;
constexpr uint32_t kProducerRegisters = 40, kMultiplierRegisters = 232;

int64_t StageBytes(const WgmmaTile& tile) { return (tile.rows + tile.columns) * kRow; }
int64_t StagesOf(const WgmmaTile& tile) {
  return std::min(kMaxStages, (kMaxShared - static_cast<int64_t>(kWgmmaAlignment)) / StageBytes(tile));
}

// Emits one product.
class Emitter {
 public:
  Emitter(llvm::IRBuilder<>& builder, const WgmmaTile& tile, const WgmmaSide& a, const WgmmaSide& b, Value* shared)
      : builder_(builder),
        function_(builder.GetInsertBlock()->getParent()),
        tile_(tile),
        a_(a),
        b_(b),
        shared_(shared),
        stages_(StagesOf(tile)),
        iterations_((tile.reduced + kDepth - 1) / kDepth),
        a_bytes_(tile.rows * kRow),
        wgmma_(builder, tile.in, tile.columns),
        floats_(wgmma_.count()) {
    item_ = builder.CreateIntrinsic(Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
    // The same in all lanes, and said to be so: roles are a warp's.
    Value* warp = builder.CreateIntrinsic(
        Intrinsic::nvvm_shfl_sync_idx_i32, {},
        {builder.getInt32(~0U), builder.CreateLShr(item_, 5), builder.getInt32(0), builder.getInt32(31)});
    warp_group_ = builder.CreateLShr(warp, 2);
  }

  std::vector<Value*> ByEngine() {
    InitializeBarriers();
    llvm::BasicBlock* producer = Block("produce");
    llvm::BasicBlock* multiplier = Block("multiply");
    builder_.CreateCondBr(builder_.CreateICmpEQ(warp_group_, Int(tile_.warp_groups())), producer, multiplier);
    builder_.SetInsertPoint(producer);
    Produce();
    builder_.SetInsertPoint(multiplier);
    return MultiplyRing();
  }

  std::vector<Value*> ByItems() {
    llvm::BasicBlock* idle = Block("idle");
    llvm::BasicBlock* multiplier = Block("multiply");
    builder_.CreateCondBr(builder_.CreateICmpEQ(warp_group_, Int(tile_.warp_groups())), idle, multiplier);
    builder_.SetInsertPoint(idle);
    GiveRegisters();
    builder_.CreateRetVoid();
    builder_.SetInsertPoint(multiplier);
    TakeRegisters();
    return MultiplyEachIteration();
  }

 private:
  llvm::BasicBlock* Block(const char* name) { return llvm::BasicBlock::Create(builder_.getContext(), name, function_); }
  llvm::ConstantInt* Int(int64_t value) { return builder_.getInt32(static_cast<uint32_t>(value)); }
  Value* At(Value* offset) { return builder_.CreateGEP(builder_.getInt8Ty(), shared_, offset); }
  Value* Full(Value* stage) {
    return At(builder_.CreateAdd(Int(stages_ * StageBytes(tile_)), builder_.CreateShl(stage, 3)));
  }
  Value* Empty(Value* stage) {
    return At(builder_.CreateAdd(Int(stages_ * (StageBytes(tile_) + 8)), builder_.CreateShl(stage, 3)));
  }

  // One item makes the ring's barriers; all see them, and the engine does.
  void InitializeBarriers() {
    llvm::BasicBlock* first = Block("initialize");
    llvm::BasicBlock* ready = Block("ready");
    builder_.CreateCondBr(builder_.CreateICmpEQ(item_, Int(0)), first, ready);
    builder_.SetInsertPoint(first);
    for (int64_t stage = 0; stage < stages_; ++stage) {
      builder_.CreateIntrinsic(Intrinsic::nvvm_mbarrier_init_shared, {}, {Full(Int(stage)), Int(1)});
      builder_.CreateIntrinsic(Intrinsic::nvvm_mbarrier_init_shared, {},
                               {Empty(Int(stage)), Int(kWarps * tile_.warp_groups())});
    }
    builder_.CreateIntrinsic(Intrinsic::nvvm_fence_mbarrier_init_release_cluster, {});
    builder_.CreateBr(ready);
    builder_.SetInsertPoint(ready);
    builder_.CreateIntrinsic(Intrinsic::nvvm_barrier_cta_sync_aligned_all, {}, {Int(0)});
  }

  // Until the phase of that parity is over.
  void Wait(Value* barrier, Value* parity) {
    llvm::BasicBlock* wait = Block("wait");
    llvm::BasicBlock* over = Block("over");
    builder_.CreateBr(wait);
    builder_.SetInsertPoint(wait);
    Value* is_over =
        builder_.CreateIntrinsic(Intrinsic::nvvm_mbarrier_try_wait_parity_scope_cta_space_cta, {}, {barrier, parity});
    builder_.CreateCondBr(is_over, over, wait);
    builder_.SetInsertPoint(over);
  }

  // What an iteration of the ring begins with: its number, its stage, and how often the ring has gone round, as a
  // parity.
  struct Iteration {
    llvm::BasicBlock* begin;
    llvm::PHINode *number, *stage, *parity;
  };
  Iteration BeginIteration(llvm::BasicBlock* before) {
    Iteration iteration;
    iteration.begin = Block("iteration");
    builder_.CreateBr(iteration.begin);
    builder_.SetInsertPoint(iteration.begin);
    for (llvm::PHINode** phi : {&iteration.number, &iteration.stage, &iteration.parity}) {
      *phi = builder_.CreatePHI(builder_.getInt32Ty(), 2);
      (*phi)->addIncoming(Int(0), before);
    }
    return iteration;
  }
  // To the next iteration, or to the block that it returns; from the block where the builder is.
  llvm::BasicBlock* EndIteration(const Iteration& iteration) {
    llvm::BasicBlock* after = Block("after");
    llvm::BasicBlock* end = builder_.GetInsertBlock();
    Value* next = builder_.CreateAdd(iteration.number, Int(1));
    Value* stage = builder_.CreateAdd(iteration.stage, Int(1));
    Value* round = builder_.CreateICmpEQ(stage, Int(stages_));
    iteration.number->addIncoming(next, end);
    iteration.stage->addIncoming(builder_.CreateSelect(round, Int(0), stage), end);
    iteration.parity->addIncoming(
        builder_.CreateSelect(round, builder_.CreateXor(iteration.parity, Int(1)), iteration.parity), end);
    builder_.CreateCondBr(builder_.CreateICmpULT(next, Int(iterations_)), iteration.begin, after);
    builder_.SetInsertPoint(after);
    return end;
  }

  void GiveRegisters() { SetRegisters(Intrinsic::nvvm_setmaxnreg_dec_sync_aligned_u32, kProducerRegisters); }
  void TakeRegisters() { SetRegisters(Intrinsic::nvvm_setmaxnreg_inc_sync_aligned_u32, kMultiplierRegisters); }
  void SetRegisters(Intrinsic::ID how, uint32_t count) {
    if (tile_.warp_groups() != kMultipliers) return;
    function_->addFnAttr("nvvm.minctasm", "1");  // without it the assembler does not heed it
    builder_.CreateIntrinsic(how, {}, {builder_.getInt32(count)});
  }

  // -- The producer

  void Produce() {
    GiveRegisters();
    llvm::BasicBlock* one = Block("ask");
    llvm::BasicBlock* rest = Block("produced");
    builder_.CreateCondBr(builder_.CreateICmpEQ(item_, Int(kWarpGroup * tile_.warp_groups())), one, rest);
    builder_.SetInsertPoint(one);
    const Iteration iteration = BeginIteration(one);
    // Before a barrier's first phase is over, the one before it counts as over: stages begin empty.
    Wait(Empty(iteration.stage), builder_.CreateXor(iteration.parity, Int(1)));
    Value* full = Full(iteration.stage);
    builder_.CreateIntrinsic(Intrinsic::nvvm_mbarrier_arrive_expect_tx_scope_cta_space_cta, {},
                             {full, Int(StageBytes(tile_))});
    Value* stage = builder_.CreateMul(iteration.stage, Int(StageBytes(tile_)));
    Value* depth = builder_.CreateMul(iteration.number, Int(kDepth));
    Ask(a_, tile_.rows, depth, stage, full);
    Ask(b_, tile_.columns, depth, builder_.CreateAdd(stage, Int(a_bytes_)), full);
    EndIteration(iteration);
    builder_.CreateBr(rest);
    builder_.SetInsertPoint(rest);
    builder_.CreateRetVoid();
  }

  // The engine for a side's boxes of one iteration.
  void Ask(const WgmmaSide& side, int64_t rows, Value* depth, Value* to, Value* full) {
    const bool beside = IsBeside(side);
    const WgmmaBox box = WgmmaBoxOf(rows, beside);
    const int64_t each = beside ? box.inner : box.outer;  // rows of a box
    Value* first = builder_.CreateTrunc(side.first, builder_.getInt32Ty());
    for (int64_t row = 0; row < rows; row += each) {
      Value* place = At(builder_.CreateAdd(to, Int(row * kRow)));
      std::vector<Value*> operands = {
          builder_.CreateAddrSpaceCast(place, llvm::PointerType::get(builder_.getContext(), kClusterSpace)), full,
          side.map};
      Value* at_row = builder_.CreateAdd(first, Int(row));
      operands.push_back(beside ? at_row : depth);
      operands.push_back(beside ? depth : at_row);
      if (side.matrix != nullptr) operands.push_back(builder_.CreateTrunc(side.matrix, builder_.getInt32Ty()));
      // To no other group of a cluster, and with no hint for caches.
      for (Value* none : std::initializer_list<Value*>{builder_.getInt16(0), builder_.getInt64(0), builder_.getFalse(),
                                                       builder_.getFalse(), Int(0)})
        operands.push_back(none);
      builder_.CreateIntrinsic(side.matrix == nullptr ? Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_2d
                                                      : Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_3d,
                               {}, operands);
    }
  }

  static bool IsBeside(const WgmmaSide& side) { return side.step_k != 1; }

  // -- Those who multiply

  std::vector<Value*> MultiplyRing() {
    TakeRegisters();
    Value* is_lane_0 = builder_.CreateICmpEQ(builder_.CreateAnd(item_, Int(31)), Int(0));
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    const Iteration iteration = BeginIteration(before);
    llvm::PHINode* last_stage = builder_.CreatePHI(builder_.getInt32Ty(), 2);
    last_stage->addIncoming(Int(0), before);
    const std::vector<llvm::PHINode*> sums = BeginSums(before);
    Wait(Full(iteration.stage), iteration.parity);
    const std::vector<Value*> next =
        Multiply(builder_.CreateMul(iteration.stage, Int(StageBytes(tile_))), Values(sums));
    // The iteration before this one is through: this one goes on, and its stage is free.
    builder_.CreateIntrinsic(Intrinsic::nvvm_wgmma_wait_group_sync_aligned, {}, {builder_.getInt64(1)});
    llvm::BasicBlock* free = Block("free");
    llvm::BasicBlock* freed = Block("freed");
    builder_.CreateCondBr(builder_.CreateAnd(is_lane_0, builder_.CreateICmpNE(iteration.number, Int(0))), free, freed);
    builder_.SetInsertPoint(free);
    builder_.CreateIntrinsic(Intrinsic::nvvm_mbarrier_arrive_scope_cta_space_cta, {}, {Empty(last_stage), Int(1)});
    builder_.CreateBr(freed);
    builder_.SetInsertPoint(freed);
    llvm::BasicBlock* end = EndIteration(iteration);
    last_stage->addIncoming(iteration.stage, end);
    for (size_t i = 0; i < floats_; ++i) sums[i]->addIncoming(next[i], end);
    return wgmma_.Wait(next);
  }

  std::vector<Value*> MultiplyEachIteration() {
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    const Iteration iteration = BeginIteration(before);
    const std::vector<llvm::PHINode*> sums = BeginSums(before);
    Value* depth = builder_.CreateMul(iteration.number, Int(kDepth));
    Bring(a_, tile_.rows, depth, Int(0));
    Bring(b_, tile_.columns, depth, Int(a_bytes_));
    builder_.CreateIntrinsic(Intrinsic::nvvm_fence_proxy_async_shared_cta, {});
    Meet();
    const std::vector<Value*> next = wgmma_.Wait(Multiply(Int(0), Values(sums)));
    Meet();
    llvm::BasicBlock* end = EndIteration(iteration);
    for (size_t i = 0; i < floats_; ++i) sums[i]->addIncoming(next[i], end);
    return next;
  }

  // All who multiply: barrier 0 is of the whole group.
  void Meet() {
    builder_.CreateIntrinsic(Intrinsic::nvvm_barrier_cta_sync_aligned_count, {},
                             {Int(1), Int(kWarpGroup * tile_.warp_groups())});
  }

  // What the engine would, element by element.
  void Bring(const WgmmaSide& side, int64_t rows, Value* depth, Value* to) {
    const bool beside = IsBeside(side);
    llvm::Type* i64 = builder_.getInt64Ty();
    llvm::Type* half = builder_.getInt16Ty();
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    llvm::BasicBlock* begin = Block("bring");
    llvm::BasicBlock* load = Block("load");
    llvm::BasicBlock* store = Block("store");
    llvm::BasicBlock* after = Block("brought");
    builder_.CreateBr(begin);
    builder_.SetInsertPoint(begin);
    llvm::PHINode* number = builder_.CreatePHI(builder_.getInt32Ty(), 2);
    number->addIncoming(item_, before);
    // Items that are neighbours read neighbours.
    const int64_t line = beside ? rows : kDepth;
    Value* inner = builder_.CreateURem(number, Int(line));
    Value* outer = builder_.CreateUDiv(number, Int(line));
    Value* row = beside ? inner : outer;
    Value* k = beside ? outer : inner;
    Value* of_matrix = builder_.CreateAdd(side.first, builder_.CreateZExt(row, i64));
    Value* of_depth = builder_.CreateAdd(depth, k);
    Value* is_there =
        builder_.CreateAnd(builder_.CreateICmpSLT(of_matrix, builder_.getInt64(static_cast<uint64_t>(side.size))),
                           builder_.CreateICmpULT(of_depth, Int(tile_.reduced)));
    builder_.CreateCondBr(is_there, load, store);
    builder_.SetInsertPoint(load);
    Value* index = builder_.CreateAdd(
        side.offset, builder_.CreateAdd(builder_.CreateMul(builder_.CreateZExt(row, i64),
                                                           builder_.getInt64(static_cast<uint64_t>(side.step))),
                                        builder_.CreateMul(builder_.CreateZExt(of_depth, i64),
                                                           builder_.getInt64(static_cast<uint64_t>(side.step_k)))));
    Value* loaded = builder_.CreateAlignedLoad(half, builder_.CreateGEP(half, side.pointer, index), llvm::Align(2));
    builder_.CreateBr(store);
    builder_.SetInsertPoint(store);
    llvm::PHINode* value = builder_.CreatePHI(half, 2);
    value->addIncoming(builder_.getInt16(0), begin);
    value->addIncoming(loaded, load);
    // Boxes of 64 rows, one behind the other, with a line for each depth; or a line for each row. A line's 16-byte
    // pieces change places by the line's number.
    Value* line_number =
        beside ? builder_.CreateAdd(k, builder_.CreateMul(builder_.CreateUDiv(row, Int(kGroupRows)), Int(kDepth)))
               : row;
    Value* in_line = beside ? builder_.CreateURem(row, Int(kGroupRows)) : k;
    Value* piece = builder_.CreateXor(builder_.CreateLShr(in_line, 3), builder_.CreateAnd(line_number, Int(7)));
    Value* place = builder_.CreateAdd(
        builder_.CreateMul(line_number, Int(kRow)),
        builder_.CreateAdd(builder_.CreateShl(piece, 4), builder_.CreateShl(builder_.CreateAnd(in_line, Int(7)), 1)));
    builder_.CreateAlignedStore(value, At(builder_.CreateAdd(to, place)), llvm::Align(2));
    Value* next = builder_.CreateAdd(number, Int(kWarpGroup * tile_.warp_groups()));
    number->addIncoming(next, store);
    builder_.CreateCondBr(builder_.CreateICmpULT(next, Int(rows * kDepth)), begin, after);
    builder_.SetInsertPoint(after);
  }

  std::vector<llvm::PHINode*> BeginSums(llvm::BasicBlock* before) {
    std::vector<llvm::PHINode*> sums;
    for (size_t i = 0; i < floats_; ++i) {
      sums.push_back(builder_.CreatePHI(builder_.getFloatTy(), 2));
      sums.back()->addIncoming(llvm::ConstantFP::get(builder_.getFloatTy(), 0.0), before);
    }
    return sums;
  }
  static std::vector<Value*> Values(const std::vector<llvm::PHINode*>& sums) { return {sums.begin(), sums.end()}; }

  // One iteration's products, of the stage that begins at `stage`: asked for, and committed as one group. Until they
  // are waited for the sums are names of registers only.
  std::vector<Value*> Multiply(Value* stage, std::vector<Value*> sums) {
    const bool a_beside = IsBeside(a_), b_beside = IsBeside(b_);
    Value* own_rows = builder_.CreateMul(warp_group_, Int(kGroupRows * kRow));
    Value* a = wgmma_.Descriptor(At(builder_.CreateAdd(stage, own_rows)), a_beside);
    Value* b = wgmma_.Descriptor(At(builder_.CreateAdd(stage, Int(a_bytes_))), b_beside);
    // In registers before the fence: what is written to them behind it, the fence does not know.
    sums = wgmma_.Fence(sums);
    for (int64_t k = 0; k < kDepth; k += Wgmma::kDepth) {
      // 16 bytes each: along a line, or so many lines on.
      const auto advance = [&](bool beside) {
        return builder_.getInt64(static_cast<uint64_t>(beside ? k * kRow : 2 * k) >> 4);
      };
      sums = wgmma_.Multiply(builder_.CreateAdd(a, advance(a_beside)), builder_.CreateAdd(b, advance(b_beside)), sums,
                             a_beside, b_beside);
    }
    builder_.CreateIntrinsic(Intrinsic::nvvm_wgmma_commit_group_sync_aligned, {});
    return sums;
  }

  llvm::IRBuilder<>& builder_;
  llvm::Function* const function_;
  const WgmmaTile tile_;
  const WgmmaSide a_, b_;
  Value* const shared_;
  const int64_t stages_, iterations_, a_bytes_;
  const Wgmma wgmma_;
  const size_t floats_;  // of an item
  Value* item_ = nullptr;
  Value* warp_group_ = nullptr;
};

}  // namespace

WgmmaBox WgmmaBoxOf(int64_t rows, bool rows_beside_each_other) {
  return rows_beside_each_other ? WgmmaBox{kGroupRows, kDepth} : WgmmaBox{kDepth, std::min(rows, kMaxBox)};
}

uint64_t WgmmaSharedBytes(const WgmmaTile& tile) {
  return static_cast<uint64_t>(StagesOf(tile) * (StageBytes(tile) + 16));
}

std::vector<Value*> EmitWgmma(llvm::IRBuilder<>& builder, const WgmmaTile& tile, const WgmmaSide& a, const WgmmaSide& b,
                              Value* shared, bool by_engine) {
  KILN_CHECK(tile.rows % kGroupRows == 0 && tile.columns % kGroupRows == 0 && tile.columns <= 256 && tile.reduced > 0);
  Emitter emitter(builder, tile, a, b, shared);
  const std::vector<Value*> registers = by_engine ? emitter.ByEngine() : emitter.ByItems();
  std::vector<Value*> sums;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < registers.size() / 4; ++j) {
      for (size_t c = 0; c < 2; ++c) sums.push_back(registers[4 * j + 2 * i + c]);
    }
  }
  return sums;
}

}  // namespace kiln::compiler
