// How a target calls its kernels, and what its work items have: the part of emitted code
// that differs from target to target.
#ifndef KILN_COMPILER_TARGET_LLVM_KERNEL_ABI_H_
#define KILN_COMPILER_TARGET_LLVM_KERNEL_ABI_H_

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/ir/uop.h"
#include "compiler/structure/group_product.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace kiln::compiler {

// A side of a product by a work group as it is when the kernel runs: its storage, and i64s.
struct ProductSide {
  llvm::Value *pointer, *offset, *first;
  std::vector<llvm::Value*> windows;  // their offsets
};

class KernelAbi {
 public:
  virtual ~KernelAbi() = default;

  // An empty function in `module` for `linear`, a LINEAR of instructions.
  virtual llvm::Function* Declare(llvm::Module& module, const UOp* linear, const std::string& symbol) const = 0;

  // What a kernel is called with in place `slot`: the address of a buffer, or an int64.
  virtual llvm::Value* Pointer(llvm::IRBuilder<>& builder, llvm::Function* function, uint32_t slot) const = 0;
  virtual llvm::Value* Integer(llvm::IRBuilder<>& builder, llvm::Function* function, uint32_t slot) const = 0;

  // The iterations [first, second) of the THREAD range that a call runs; nulls if it runs all, as on GPUs.
  virtual std::pair<llvm::Value*, llvm::Value*> Share(llvm::Function* function) const = 0;

  // Two addresses of bytes, of which one is not 0 when the call is to stop; null if nothing stops it, as on GPUs.
  virtual llvm::Value* Stop(llvm::Function* function) const = 0;

  // -- Of targets with work items
  // SPECIAL `name`, an int64.
  virtual llvm::Value* Coordinate(llvm::IRBuilder<>& builder, absl::string_view name) const = 0;
  virtual void Barrier(llvm::IRBuilder<>& builder) const = 0;
  // Of a WMMA by a warp that HasWmma (target.h) knows: the fragment of the sum, of those of its operands, vectors.
  virtual llvm::Value* Wmma(llvm::IRBuilder<>& builder, const WmmaArg& arg, llvm::Value* a, llvm::Value* b,
                            llvm::Value* c) const = 0;
  // The item's elements of a product by its work group (structure/group_product.h), floats, in the order of the lanes
  // of the tile. `shared` is SharedBytesOf it; the storage of both sides begins at a multiple of `alignment` bytes. The
  // builder may go to another block: all items of the group, but such as have no element, go on there.
  virtual std::vector<llvm::Value*> Multiply(llvm::IRBuilder<>& builder, const GroupProduct& product,
                                             const ProductSide& a, const ProductSide& b, llvm::Value* shared,
                                             uint64_t alignment) const = 0;
  virtual int64_t SharedBytesOf(const GroupProduct& product) const = 0;
  // Items of a group along each axis, of `linear`.
  virtual std::array<int64_t, 3> Items(const UOp* linear) const = 0;
  // `word`, an i32, of the item whose number in the group differs in the bit `mask`, which is below 32. `members`, an
  // i32: those of 32 neighbouring items that are there; all of them get here.
  virtual llvm::Value* Exchange(llvm::IRBuilder<>& builder, llvm::Value* word, int64_t mask,
                                llvm::Value* members) const = 0;
  // Bytes to which a vector of lanes in memory must be aligned, for one access to do; 1 if it needs not be.
  virtual uint64_t VectorAlignment() const = 0;
  // Memory of a group's; null where a work item is all there is, and its stack will do.
  virtual llvm::Value* SharedArray(llvm::Function* function, llvm::Type* type) const = 0;
  // Whether an access whose gate is false is jumped over. Else it goes to a place on the stack: there are no
  // pointers that reach both.
  virtual bool JumpsOverGates() const = 0;
};

// A function
//   void symbol(ptr operands, i64 begin, i64 end, ptr stop)
// with a pointer, or an int64, in each place of `operands` (executable.proto, Kernel).
const KernelAbi& CpuAbi();

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_KERNEL_ABI_H_
