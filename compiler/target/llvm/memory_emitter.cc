#include "compiler/target/llvm/memory_emitter.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "compiler/target/llvm/streamed_stores.h"
#include "compiler/target/llvm/values/emit_alu.h"
#include "compiler/target/llvm/values/strided_load.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/Support/KnownBits.h"

namespace kiln::compiler {

llvm::AllocaInst* MemoryEmitter::Slot(llvm::Type* type) {
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  return at_entry.CreateAlloca(type);
}

void MemoryEmitter::AddParameter(const UOp* param) {
  pointers_[param] = abi_.Pointer(builder_, function_, param->arg_as<BufferArg>().slot);
}

llvm::Value* MemoryEmitter::Variable(const UOp* param) {
  llvm::Value* value = abi_.Integer(builder_, function_, param->arg_as<BufferArg>().slot);
  return builder_.CreateTrunc(value, MemoryType(builder_.getContext(), param->dtype()));
}

void MemoryEmitter::AddRegisters(const UOp* buffer) {
  auto& slots = registers_[buffer];
  const Shape& shape = buffer->shape();
  llvm::Type* type = LaneType(builder_.getContext(), buffer->dtype(), LanesOf(shape));
  for (int64_t row = 0; row < RowsOf(shape); ++row) slots.push_back(Slot(type));
}

void MemoryEmitter::Finish() {
  if (guard_) guard_->CheckZones();
  // Such stores keep no order with others, as that by which a thread says that it is done.
  if (streams_) builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::x86_sse_sfence, {});
}

bool MemoryEmitter::Streams(const UOp* param, llvm::Value* index, int64_t bytes) const {
  if (bytes % kLineBytes != 0 || !streamed_.contains(param)) return false;
  const llvm::KnownBits known = llvm::computeKnownBits(index, function_->getParent()->getDataLayout());
  return (ItemSize(param->dtype()) << std::min(known.countMinTrailingZeros(), 6u)) % kLineBytes == 0;
}

void MemoryEmitter::AddArray(const UOp* buffer) {
  if (guard_) {
    pointers_[buffer] = guard_->AddArray(buffer);
    return;
  }
  llvm::Type* element = MemoryType(builder_.getContext(), buffer->dtype());
  auto* type = llvm::ArrayType::get(element, static_cast<uint64_t>(NumElements(buffer->shape())));
  if (buffer->addrspace() == AddrSpace::kLocal) {
    llvm::Value* shared = abi_.SharedArray(function_, type);
    if (shared != nullptr) {
      pointers_[buffer] = shared;
      return;
    }
  }
  llvm::AllocaInst* array = Slot(type);
  array->setAlignment(llvm::Align(64));
  pointers_[buffer] = array;
}

llvm::Value* MemoryEmitter::ReadRegister(const UOp* buffer, int64_t row) {
  llvm::AllocaInst* slot = registers_.at(buffer)[static_cast<size_t>(row)];
  return builder_.CreateLoad(slot->getAllocatedType(), slot);
}

void MemoryEmitter::WriteRegister(const UOp* buffer, int64_t row, llvm::Value* value) {
  builder_.CreateStore(value, registers_.at(buffer)[static_cast<size_t>(row)]);
}

llvm::Value* MemoryEmitter::Address(const UOp* param, llvm::Value* index) {
  return builder_.CreateGEP(MemoryType(builder_.getContext(), param->dtype()), pointers_.at(param), index);
}

llvm::Align MemoryEmitter::AlignOf(const UOp* param, llvm::Value* index, int64_t bytes) const {
  const auto item = static_cast<uint64_t>(ItemSize(param->dtype()));
  if (param->op() != Op::PARAM || parameters_align_ <= item) return llvm::Align(item);
  const llvm::KnownBits known = llvm::computeKnownBits(index, function_->getParent()->getDataLayout());
  const uint64_t at_index = item << std::min(known.countMinTrailingZeros(), 6u);
  const auto whole = std::bit_floor(static_cast<uint64_t>(bytes));
  return llvm::Align(std::max(item, std::min({parameters_align_, at_index, whole})));
}

llvm::Value* MemoryEmitter::Nowhere() {
  if (nowhere_ == nullptr) nowhere_ = Slot(builder_.getInt64Ty());
  return nowhere_;
}

llvm::Value* MemoryEmitter::LoadIf(llvm::Type* type, llvm::Value* address, llvm::Align align, llvm::Value* gate) {
  if (!abi_.JumpsOverGates())
    return builder_.CreateAlignedLoad(type, builder_.CreateSelect(gate, address, Nowhere()), align);
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  auto* inside = llvm::BasicBlock::Create(builder_.getContext(), "gated", function_);
  auto* behind = llvm::BasicBlock::Create(builder_.getContext(), "behind", function_);
  builder_.CreateCondBr(gate, inside, behind);
  builder_.SetInsertPoint(inside);
  llvm::Value* loaded = builder_.CreateAlignedLoad(type, address, align);
  builder_.CreateBr(behind);
  builder_.SetInsertPoint(behind);
  llvm::PHINode* value = builder_.CreatePHI(type, 2);
  value->addIncoming(loaded, inside);
  value->addIncoming(llvm::Constant::getNullValue(type), before);
  return value;
}

void MemoryEmitter::StoreIf(llvm::Value* value, llvm::Value* address, llvm::Align align, llvm::Value* gate) {
  if (!abi_.JumpsOverGates()) {
    builder_.CreateAlignedStore(value, builder_.CreateSelect(gate, address, Nowhere()), align);
    return;
  }
  auto* inside = llvm::BasicBlock::Create(builder_.getContext(), "gated", function_);
  auto* behind = llvm::BasicBlock::Create(builder_.getContext(), "behind", function_);
  builder_.CreateCondBr(gate, inside, behind);
  builder_.SetInsertPoint(inside);
  builder_.CreateAlignedStore(value, address, align);
  builder_.CreateBr(behind);
  builder_.SetInsertPoint(behind);
}

llvm::Value* MemoryEmitter::JumpsOverAll(llvm::Value* gate) const {
  return abi_.JumpsOverGates() ? llvm::getSplatValue(gate) : nullptr;
}

llvm::Value* MemoryEmitter::FromMemory(llvm::Value* value, DType dtype) {
  if (dtype != DType::kBool) return value;
  return builder_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
}

llvm::Value* MemoryEmitter::ToMemory(llvm::Value* value, DType dtype) {
  if (dtype != DType::kBool) return value;
  llvm::Type* type = builder_.getInt8Ty();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType()))
    type = llvm::FixedVectorType::get(type, vector->getNumElements());
  return builder_.CreateZExt(value, type);
}

llvm::Value* MemoryEmitter::LoadEach(const UOp* param, const Element& place, int64_t lanes, llvm::Value* otherwise,
                                     llvm::Value* gate) {
  llvm::Type* scalar = MemoryType(builder_.getContext(), param->dtype());
  const llvm::Align align(static_cast<uint64_t>(ItemSize(param->dtype())));
  llvm::Value* places = Materialize(builder_, place, lanes);
  llvm::Value* value = otherwise;
  for (uint64_t lane = 0; lane < static_cast<uint64_t>(lanes); ++lane) {
    llvm::Value* open = builder_.CreateExtractElement(gate, lane);
    const auto* known = llvm::dyn_cast<llvm::ConstantInt>(open);
    if (known != nullptr && known->isZero()) continue;
    llvm::Value* address = Address(param, builder_.CreateExtractElement(places, lane));
    llvm::Value* loaded =
        known != nullptr ? builder_.CreateAlignedLoad(scalar, address, align) : LoadIf(scalar, address, align, open);
    if (known == nullptr) loaded = builder_.CreateSelect(open, loaded, builder_.CreateExtractElement(otherwise, lane));
    value = builder_.CreateInsertElement(value, loaded, lane);
  }
  return value;
}

llvm::Value* MemoryEmitter::Load(const UOp* param, const Element& place, int64_t lanes, llvm::Value* alt,
                                 llvm::Value* gate) {
  if (guard_) guard_->CheckPlaces(param, Materialize(builder_, place, lanes), gate);
  const DType dtype = param->dtype();
  llvm::Type* scalar = MemoryType(builder_.getContext(), dtype);
  const llvm::Align align(static_cast<uint64_t>(ItemSize(dtype)));
  const bool one_place = lanes == 1 || (place.affine && place.step == 0);
  if (one_place && (gate == nullptr || lanes == 1)) {
    llvm::Value* address = Address(param, place.value);
    llvm::Value* value =
        gate == nullptr ? builder_.CreateAlignedLoad(scalar, address, align) : LoadIf(scalar, address, align, gate);
    value = FromMemory(value, dtype);
    if (gate != nullptr) value = builder_.CreateSelect(gate, value, alt);
    return lanes == 1 ? value : builder_.CreateVectorSplat(static_cast<unsigned>(lanes), value);
  }
  auto* type = llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
  llvm::Value* otherwise = alt == nullptr ? nullptr : ToMemory(alt, dtype);
  llvm::Value* value = nullptr;
  const bool contiguous = place.affine && place.step == 1;
  if (gate != nullptr && abi_.JumpsOverGates() && (!contiguous || JumpsOverAll(gate) == nullptr)) {
    value = LoadEach(param, place, lanes, otherwise, gate);
  } else if (contiguous) {
    llvm::Value* address = Address(param, place.value);
    const llvm::Align whole = AlignOf(param, place.value, lanes * ItemSize(dtype));
    if (gate == nullptr) {
      value = builder_.CreateAlignedLoad(type, address, whole);
    } else if (llvm::Value* one = JumpsOverAll(gate)) {
      value = builder_.CreateSelect(one, LoadIf(type, address, whole, one), otherwise);
    } else {
      value = builder_.CreateMaskedLoad(type, address, whole, gate, otherwise);
    }
  } else if (place.affine && IsShortStep(place.step)) {
    value = LoadStrided(builder_, scalar, Address(param, place.value), place.step, lanes, align, gate, otherwise);
  } else {
    llvm::Value* addresses = Address(param, Materialize(builder_, place, lanes));
    llvm::Value* mask = gate != nullptr ? gate
                                        : llvm::ConstantInt::getTrue(llvm::FixedVectorType::get(
                                              builder_.getInt1Ty(), static_cast<unsigned>(lanes)));
    value = builder_.CreateMaskedGather(type, addresses, align, mask,
                                        otherwise != nullptr ? otherwise : llvm::PoisonValue::get(type));
  }
  return FromMemory(value, dtype);
}

void MemoryEmitter::Store(const UOp* param, const Element& place, int64_t lanes, llvm::Value* value,
                          llvm::Value* gate) {
  if (guard_) guard_->CheckPlaces(param, Materialize(builder_, place, lanes), gate);
  const DType dtype = param->dtype();
  const llvm::Align align(static_cast<uint64_t>(ItemSize(dtype)));
  value = ToMemory(value, dtype);
  if (lanes == 1) {
    llvm::Value* address = Address(param, place.value);
    if (gate != nullptr) {
      StoreIf(value, address, align, gate);
    } else {
      builder_.CreateAlignedStore(value, address, align);
    }
    return;
  }
  // LLVM 22 makes one scalar store of a masked store whose mask turns out to have one
  // lane, and forgets then that it was truncating: it writes too many bytes.
  // And a GPU's masked accesses may touch what lies beside.
  const bool contiguous = place.affine && place.step == 1;
  const bool jumps = gate != nullptr && abi_.JumpsOverGates() && (!contiguous || JumpsOverAll(gate) == nullptr);
  const bool may_truncate = gate != nullptr && value->getType()->isIntOrIntVectorTy() && ItemSize(dtype) < 8;
  if (jumps || (may_truncate && (lane_by_lane_ || llvm::isa<llvm::Constant>(gate)))) {
    llvm::Value* places = Materialize(builder_, place, lanes);
    for (uint64_t lane = 0; lane < static_cast<uint64_t>(lanes); ++lane) {
      llvm::Value* address = Address(param, builder_.CreateExtractElement(places, lane));
      StoreIf(builder_.CreateExtractElement(value, lane), address, align, builder_.CreateExtractElement(gate, lane));
    }
    return;
  }
  if (place.affine && place.step == 1) {
    llvm::Value* address = Address(param, place.value);
    if (gate == nullptr && Streams(param, place.value, lanes * ItemSize(dtype))) {
      llvm::MDNode* once =
          llvm::MDNode::get(builder_.getContext(), llvm::ConstantAsMetadata::get(builder_.getInt32(1)));
      builder_.CreateAlignedStore(value, address, llvm::Align(kLineBytes))
          ->setMetadata(llvm::LLVMContext::MD_nontemporal, once);
      streams_ = true;
    } else if (const llvm::Align whole = AlignOf(param, place.value, lanes * ItemSize(dtype)); gate == nullptr) {
      builder_.CreateAlignedStore(value, address, whole);
    } else if (llvm::Value* one = JumpsOverAll(gate)) {
      StoreIf(value, address, whole, one);
    } else {
      builder_.CreateMaskedStore(value, address, whole, gate);
    }
    return;
  }
  llvm::Value* addresses = Address(param, Materialize(builder_, place, lanes));
  llvm::Value* mask =
      gate != nullptr
          ? gate
          : llvm::ConstantInt::getTrue(llvm::FixedVectorType::get(builder_.getInt1Ty(), static_cast<unsigned>(lanes)));
  builder_.CreateMaskedScatter(value, addresses, align, mask);
}

void MemoryEmitter::Prefetch(const UOp* param, const Element& place, int64_t lanes) {
  constexpr int64_t kLine = 64;
  if (lanes > 1 && (!place.affine || (place.step != 0 && place.step != 1))) return;
  const auto ask = [&](llvm::Value* index) { Prefetch(Address(param, index)); };
  ask(place.value);
  // What fills no lines may end in the next; others have neighbours that ask for it.
  const int64_t bytes = lanes * ItemSize(param->dtype());
  const bool in_one = static_cast<int64_t>(AlignOf(param, place.value, bytes).value()) >= bytes;
  if (lanes > 1 && place.step == 1 && bytes % kLine != 0 && !in_one)
    ask(builder_.CreateAdd(place.value, builder_.getInt64(static_cast<uint64_t>(lanes - 1))));
}

void MemoryEmitter::Prefetch(llvm::Value* address) {
  builder_.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {builder_.getPtrTy()},
      {address, builder_.getInt32(/*read*/ 0), builder_.getInt32(/*near*/ 3), builder_.getInt32(/*data*/ 1)});
}

void MemoryEmitter::AtomicAdd(const UOp* param, llvm::Value* index, llvm::Value* value) {
  if (guard_) guard_->CheckPlaces(param, index, nullptr);
  const DType dtype = param->dtype();
  llvm::Value* address = Address(param, index);
  const llvm::Align align(static_cast<uint64_t>(ItemSize(dtype)));
  constexpr llvm::AtomicOrdering kOrder = llvm::AtomicOrdering::Monotonic;
  if (!IsNarrowFloat(dtype)) {
    const auto add = dtype == DType::kBool ? llvm::AtomicRMWInst::Or
                     : IsFloat(dtype)      ? llvm::AtomicRMWInst::FAdd
                                           : llvm::AtomicRMWInst::Add;
    builder_.CreateAtomicRMW(add, address, ToMemory(value, dtype), align, kOrder);
    return;
  }
  // In float32, and rounded once: until nobody was quicker.
  llvm::LLVMContext& context = builder_.getContext();
  llvm::Type* bits = builder_.getIntNTy(static_cast<unsigned>(8 * ItemSize(dtype)));
  llvm::Type* type = RegisterType(context, dtype);
  llvm::Value* addend = EmitCast(builder_, value, dtype, DType::kFloat32);
  llvm::LoadInst* first = builder_.CreateAlignedLoad(bits, address, align);
  first->setAtomic(kOrder);
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  auto* again = llvm::BasicBlock::Create(context, "again", function_);
  auto* done = llvm::BasicBlock::Create(context, "added", function_);
  builder_.CreateBr(again);
  builder_.SetInsertPoint(again);
  llvm::PHINode* old = builder_.CreatePHI(bits, 2);
  old->addIncoming(first, before);
  llvm::Value* sum =
      builder_.CreateFAdd(EmitCast(builder_, builder_.CreateBitCast(old, type), dtype, DType::kFloat32), addend);
  llvm::Value* wanted = builder_.CreateBitCast(EmitCast(builder_, sum, DType::kFloat32, dtype), bits);
  llvm::Value* result = builder_.CreateAtomicCmpXchg(address, old, wanted, align, kOrder, kOrder);
  old->addIncoming(builder_.CreateExtractValue(result, 0), again);
  builder_.CreateCondBr(builder_.CreateExtractValue(result, 1), done, again);
  builder_.SetInsertPoint(done);
}

}  // namespace kiln::compiler
