// Loads and stores of a kernel: vectors where lanes are contiguous, gathers and
// scatters elsewhere, masks for gates; and the registers of accumulators.
#ifndef KILN_COMPILER_TARGET_LLVM_MEMORY_EMITTER_H_
#define KILN_COMPILER_TARGET_LLVM_MEMORY_EMITTER_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/target/llvm/array_guard.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "compiler/target/llvm/values/values.h"

namespace kiln::compiler {

class MemoryEmitter {
 public:
  // All must outlive the object; the builder stands in the entry block. With
  // `lane_by_lane`, gated integers are stored one lane at a time.
  MemoryEmitter(llvm::IRBuilder<>& builder, llvm::Function* function, const KernelAbi& abi, bool lane_by_lane = false)
      : builder_(builder), function_(function), abi_(abi), lane_by_lane_(lane_by_lane) {}

  // Arrays are watched (array_guard.h); to be said before the first.
  void GuardArrays() { guard_.emplace(builder_, function_); }
  // Parameters that begin at a line: whole lines of them go past the caches (streamed_stores.h).
  void Stream(absl::flat_hash_set<const UOp*> parameters) { streamed_ = std::move(parameters); }
  // Parameters begin at multiples of so many bytes. Else nothing is known but that elements are aligned.
  void AlignParameters(uint64_t bytes) { parameters_align_ = bytes; }
  // What stands at the end.
  void Finish();

  // PARAM k: the pointer in the k-th place.
  void AddParameter(const UOp* param);
  // PARAM k of address space ALU: the value in the k-th place.
  llvm::Value* Variable(const UOp* param);
  // A REG buffer: one stack slot a row, which LLVM turns into registers.
  void AddRegisters(const UOp* buffer);

  // A BUFFER that is indexed: an array, the group's if it is LOCAL, else on the stack.
  void AddArray(const UOp* buffer);

  llvm::Value* ReadRegister(const UOp* buffer, int64_t row);
  void WriteRegister(const UOp* buffer, int64_t row, llvm::Value* value);

  // `lanes` elements of `param` from `place` on; `alt` where `gate` is false
  // (both null for always). Affine places with step 0 load once for all lanes.
  llvm::Value* Load(const UOp* param, const Element& place, int64_t lanes, llvm::Value* alt, llvm::Value* gate);
  void Store(const UOp* param, const Element& place, int64_t lanes, llvm::Value* value, llvm::Value* gate);

  // Asks for the lines of the cache in which a later Load finds them. Nothing where they lie apart.
  void Prefetch(const UOp* param, const Element& place, int64_t lanes);

  // Of one line.
  void Prefetch(llvm::Value* address);

  // Adds `value` to one element, undivided.
  void AtomicAdd(const UOp* param, llvm::Value* index, llvm::Value* value);

  // Between a value in a register and its bytes: bool has another type in memory.
  llvm::Value* FromMemory(llvm::Value* value, DType dtype);
  llvm::Value* ToMemory(llvm::Value* value, DType dtype);

  llvm::Value* Address(const UOp* param, llvm::Value* index);

 private:
  // How well `bytes` from element `index` of `param` on are aligned.
  llvm::Align AlignOf(const UOp* param, llvm::Value* index, int64_t bytes) const;
  // What is at one address, unless `gate` is false.
  llvm::Value* LoadIf(llvm::Type* type, llvm::Value* address, llvm::Align align, llvm::Value* gate);
  void StoreIf(llvm::Value* value, llvm::Value* address, llvm::Align align, llvm::Value* gate);
  // Lanes whose gates differ, one by one.
  llvm::Value* LoadEach(const UOp* param, const Element& place, int64_t lanes, llvm::Value* otherwise,
                        llvm::Value* gate);
  // The gate of all lanes, if they have one and it is jumped over; else null.
  llvm::Value* JumpsOverAll(llvm::Value* gate) const;
  // A place that may always be read and written, for gates that are false.
  llvm::Value* Nowhere();
  llvm::AllocaInst* Slot(llvm::Type* type);
  // Whether lanes of `bytes` from element `index` of `param` on are whole lines to be streamed.
  bool Streams(const UOp* param, llvm::Value* index, int64_t bytes) const;

  llvm::IRBuilder<>& builder_;
  llvm::Function* function_;
  const KernelAbi& abi_;
  const bool lane_by_lane_;
  std::optional<ArrayGuard> guard_;
  absl::flat_hash_set<const UOp*> streamed_;
  uint64_t parameters_align_ = 1;
  bool streams_ = false;  // whether anything was
  absl::flat_hash_map<const UOp*, llvm::Value*> pointers_;
  absl::flat_hash_map<const UOp*, std::vector<llvm::AllocaInst*>> registers_;
  llvm::AllocaInst* nowhere_ = nullptr;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_MEMORY_EMITTER_H_
