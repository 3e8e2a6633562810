#include "compiler/target/llvm/group_reduce.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "compiler/target/llvm/values/emit_alu.h"
#include "compiler/target/llvm/values/values.h"
#include "llvm/IR/DerivedTypes.h"

namespace kiln::compiler {
namespace {

// That exchange values on all GPUs: AMD's wavefronts of 64 do so in halves.
constexpr int64_t kWarp = 32;
// Shared memory for one reduction; what does not fit is reduced later.
constexpr int64_t kMaxReduceBytes = 16 << 10;

bool IsPowerOf2(int64_t n) { return std::has_single_bit(static_cast<uint64_t>(n)); }

using Items = std::array<int64_t, 3>;

int64_t All(const Items& items) { return items[0] * items[1] * items[2]; }

// Between the numbers of items that are neighbours along `axis`.
int64_t StepOf(const Items& items, size_t axis) {
  int64_t step = 1;
  for (size_t i = 0; i < axis; ++i) step *= items[i];
  return step;
}

enum class Way { kButterfly, kAcrossWarps, kThroughMemory };

Way WayOf(const Items& items, size_t axis) {
  const int64_t step = StepOf(items, axis), n = items[axis];
  if (IsPowerOf2(step) && IsPowerOf2(n) && step * n <= kWarp) return Way::kButterfly;
  return step == 1 && IsPowerOf2(n) && All(items) % kWarp == 0 ? Way::kAcrossWarps : Way::kThroughMemory;
}

// Values that are reduced through memory at once.
size_t AtOnce(const Items& items, int64_t item_size, size_t values) {
  return std::clamp<size_t>(static_cast<size_t>(kMaxReduceBytes / (All(items) * item_size)), 1, values);
}

size_t AxisOf(const UOp* special) { return static_cast<size_t>(special->arg_as<TextArg>().text.back() - '0'); }

}  // namespace

int64_t ReduceBytesOf(const UOp* linear, const std::array<int64_t, 3>& items) {
  int64_t most = 0;
  for (const UOp* uop : linear->src()) {
    if (uop->op() != Op::REDUCE) continue;
    const auto values = static_cast<size_t>(NumElements(uop->shape()));
    const int64_t size = ItemSize(uop->dtype());
    for (const UOp* item : uop->src().subspan(1)) {
      const Way way = WayOf(items, AxisOf(item));
      const size_t at_once = way == Way::kAcrossWarps ? values : AtOnce(items, size, values);
      const int64_t each = way == Way::kAcrossWarps ? All(items) / kWarp : All(items);
      if (way != Way::kButterfly) most = std::max(most, each * size * static_cast<int64_t>(at_once));
    }
  }
  return most;
}

llvm::Value* ReduceMemoryOf(const UOp* linear, llvm::Function* function, const KernelAbi& abi) {
  const auto over_items = [](const UOp* uop) { return uop->op() == Op::REDUCE && uop->src().size() > 1; };
  if (std::none_of(linear->src().begin(), linear->src().end(), over_items)) return nullptr;
  const auto bytes = static_cast<uint64_t>(ReduceBytesOf(linear, abi.Items(linear)));
  if (bytes == 0) return nullptr;
  return abi.SharedArray(function, llvm::ArrayType::get(llvm::Type::getInt8Ty(function->getContext()), bytes));
}

std::vector<llvm::Value*> GroupReduce::ReduceRows(const UOp* reduce, const std::vector<llvm::Value*>& rows,
                                                  int64_t lanes) {
  std::vector<llvm::Value*> values;
  for (llvm::Value* row : rows) {
    for (int64_t lane = 0; lane < lanes; ++lane)
      values.push_back(lanes == 1 ? row : builder_.CreateExtractElement(row, static_cast<uint64_t>(lane)));
  }
  for (const UOp* item : reduce->src().subspan(1))
    Reduce(item, reduce->arg_as<ReduceArg>().op, reduce->dtype(), values);
  if (lanes == 1) return values;
  std::vector<llvm::Value*> reduced;
  for (size_t row = 0; row < rows.size(); ++row) {
    llvm::Value* vector = llvm::PoisonValue::get(rows[row]->getType());
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const auto at = static_cast<uint64_t>(lane);
      vector = builder_.CreateInsertElement(vector, values[row * static_cast<size_t>(lanes) + at], at);
    }
    reduced.push_back(vector);
  }
  return reduced;
}

void GroupReduce::Reduce(const UOp* special, Op reduce_op, DType dtype, std::vector<llvm::Value*>& values) {
  const size_t axis = AxisOf(special);
  const int64_t step = StepOf(items_, axis), n = items_[axis];
  switch (WayOf(items_, axis)) {
    case Way::kButterfly: return Butterfly(reduce_op, dtype, step, step * n, values);
    case Way::kAcrossWarps:
      Butterfly(reduce_op, dtype, 1, kWarp, values);
      return AcrossWarps(reduce_op, dtype, n / kWarp, values);
    case Way::kThroughMemory: return ThroughMemory(reduce_op, dtype, axis, values);
  }
}

llvm::Value* GroupReduce::Combine(Op reduce_op, DType dtype, llvm::Value* a, llvm::Value* b) {
  if (dtype != DType::kBool) return EmitReduceOp(builder_, reduce_op, dtype, a, b);
  // In memory a bool is a byte, 0 or 1.
  return reduce_op == Op::MUL ? builder_.CreateAnd(a, b) : builder_.CreateOr(a, b);
}

void GroupReduce::Butterfly(Op reduce_op, DType dtype, int64_t from, int64_t to, std::vector<llvm::Value*>& values) {
  for (int64_t mask = to / 2; mask >= from; mask /= 2) {
    for (llvm::Value*& value : values) value = Combine(reduce_op, dtype, value, Partners(value, mask));
  }
}

// The value of the item whose number differs in the bit `mask`.
llvm::Value* GroupReduce::Partners(llvm::Value* value, int64_t mask) {
  llvm::Type* type = value->getType();
  const unsigned bits = type->getScalarSizeInBits();
  llvm::Type* word = builder_.getInt32Ty();
  // The items that are there: the last warp may have fewer.
  const uint64_t rest = static_cast<uint64_t>(all_ % kWarp);
  llvm::Value* members = builder_.getInt32(~uint32_t{0});
  if (rest != 0) {
    llvm::Value* few = builder_.getInt32((uint32_t{1} << rest) - 1);
    llvm::Value* last = builder_.CreateICmpUGE(Number(), builder_.getInt32(static_cast<uint32_t>(all_ - all_ % kWarp)));
    members = all_ < kWarp ? few : builder_.CreateSelect(last, few, members);
  }
  llvm::Value* as_bits = builder_.CreateBitCast(value, builder_.getIntNTy(bits));
  const auto exchange = [&](llvm::Value* half) { return abi_.Exchange(builder_, half, mask, members); };
  if (bits <= 32) {
    llvm::Value* partner = exchange(builder_.CreateZExt(as_bits, word));
    return builder_.CreateBitCast(builder_.CreateTrunc(partner, builder_.getIntNTy(bits)), type);
  }
  llvm::Value* low = exchange(builder_.CreateTrunc(as_bits, word));
  llvm::Value* high = exchange(builder_.CreateTrunc(builder_.CreateLShr(as_bits, 32), word));
  llvm::Type* wide = builder_.getInt64Ty();
  llvm::Value* joined =
      builder_.CreateOr(builder_.CreateZExt(low, wide), builder_.CreateShl(builder_.CreateZExt(high, wide), 32));
  return builder_.CreateBitCast(joined, type);
}

llvm::Value* GroupReduce::Number() {
  llvm::Value* number = nullptr;
  for (size_t axis = 3; axis-- > 0;) {
    if (items_[axis] == 1) continue;
    llvm::Value* item =
        builder_.CreateTrunc(abi_.Coordinate(builder_, absl::StrCat("lidx", axis)), builder_.getInt32Ty());
    if (number != nullptr) {
      number = builder_.CreateMul(number, builder_.getInt32(static_cast<uint32_t>(items_[axis])));
      item = builder_.CreateAdd(number, item);
    }
    number = item;
  }
  return number == nullptr ? builder_.getInt32(0) : number;
}

llvm::Value* GroupReduce::At(llvm::Type* element, llvm::Value* index, int64_t offset) {
  index = builder_.CreateAdd(index, builder_.getInt32(static_cast<uint32_t>(offset)));
  return builder_.CreateGEP(element, memory_, builder_.CreateZExt(index, builder_.getInt64Ty()));
}

// All items of a warp have the same. A row is of several neighbouring warps: the first item of each writes it down,
// and each warp reduces those of its row.
void GroupReduce::AcrossWarps(Op reduce_op, DType dtype, int64_t warps, std::vector<llvm::Value*>& values) {
  llvm::Type* element = values[0]->getType();
  const int64_t slots = all_ / kWarp;
  llvm::Value* number = Number();
  llvm::Value* warp = builder_.CreateLShr(number, static_cast<uint64_t>(std::countr_zero(uint64_t{kWarp})));
  const auto place = [&](llvm::Value* slot, size_t i) { return At(element, slot, slots * static_cast<int64_t>(i)); };
  llvm::Function* function = builder_.GetInsertBlock()->getParent();
  auto* first = llvm::BasicBlock::Create(builder_.getContext(), "first", function);
  auto* written = llvm::BasicBlock::Create(builder_.getContext(), "written", function);
  llvm::Value* lane = builder_.CreateAnd(number, kWarp - 1);
  builder_.CreateCondBr(builder_.CreateICmpEQ(lane, builder_.getInt32(0)), first, written);
  builder_.SetInsertPoint(first);
  for (size_t i = 0; i < values.size(); ++i) builder_.CreateStore(values[i], place(warp, i));
  builder_.CreateBr(written);
  builder_.SetInsertPoint(written);
  abi_.Barrier(builder_);
  llvm::Value* low = builder_.getInt32(static_cast<uint32_t>(warps - 1));
  llvm::Value* slot =
      builder_.CreateOr(builder_.CreateAnd(warp, builder_.CreateNot(low)), builder_.CreateAnd(number, low));
  for (size_t i = 0; i < values.size(); ++i) values[i] = builder_.CreateLoad(element, place(slot, i));
  abi_.Barrier(builder_);  // before any item writes there again
  Butterfly(reduce_op, dtype, 1, warps, values);
}

void GroupReduce::ThroughMemory(Op reduce_op, DType dtype, size_t axis, std::vector<llvm::Value*>& values) {
  llvm::Type* element = values[0]->getType();
  const int64_t step = StepOf(items_, axis);
  const size_t at_once = AtOnce(items_, ItemSize(dtype), values.size());
  llvm::Value* number = Number();
  llvm::Value* item =
      builder_.CreateTrunc(abi_.Coordinate(builder_, absl::StrCat("lidx", axis)), builder_.getInt32Ty());
  llvm::Value* first =
      builder_.CreateSub(number, builder_.CreateMul(item, builder_.getInt32(static_cast<uint32_t>(step))));
  for (size_t begin = 0; begin < values.size(); begin += at_once) {
    const size_t end = std::min(values.size(), begin + at_once);
    const auto place = [&](llvm::Value* index, size_t i, int64_t apart) {
      return At(element, index, static_cast<int64_t>(i - begin) * all_ + apart);
    };
    for (size_t i = begin; i < end; ++i) builder_.CreateStore(values[i], place(number, i, 0));
    abi_.Barrier(builder_);
    for (size_t i = begin; i < end; ++i) {
      for (int64_t k = 0; k < items_[axis]; ++k) {
        llvm::Value* part = builder_.CreateLoad(element, place(first, i, k * step));
        values[i] = k == 0 ? part : Combine(reduce_op, dtype, values[i], part);
      }
    }
    abi_.Barrier(builder_);
  }
}

}  // namespace kiln::compiler
