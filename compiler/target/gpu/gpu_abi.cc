#include "compiler/target/gpu/gpu_abi.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/spec/program_spec.h"
#include "compiler/target/gpu/fma_product.h"
#include "compiler/target/gpu/launch.h"
#include "compiler/target/gpu/mma_product.h"
#include "compiler/target/gpu/tensor_cores.h"
#include "compiler/target/gpu/wave_product.h"
#include "compiler/target/gpu/wgmma_kernel.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace kiln::compiler {
namespace {

constexpr unsigned kGlobalSpace = 1;

class GpuAbi : public KernelAbi {
 public:
  explicit GpuAbi(std::string architecture) : architecture_(std::move(architecture)) {}

  llvm::Function* Declare(llvm::Module& module, const UOp* linear, const std::string& symbol) const override {
    llvm::LLVMContext& context = module.getContext();
    std::vector<llvm::Type*> types;
    for (const UOp* uop : linear->src()) {
      if (uop->op() != Op::PARAM) continue;
      const size_t slot = uop->arg_as<BufferArg>().slot;
      if (types.size() <= slot) types.resize(slot + 1, llvm::Type::getInt64Ty(context));
      if (!uop->IsVariable()) types[slot] = llvm::PointerType::get(context, kGlobalSpace);
    }
    const size_t operands = types.size(), maps = TensorMapsOf(linear).size();
    types.resize(operands + maps, llvm::PointerType::get(context, 0));
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false);
    auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    SayTensorMaps(*function, static_cast<unsigned>(operands), maps);
    SayGroup(*function, ItemsOf(linear));
    return function;
  }

  llvm::Value* Pointer(llvm::IRBuilder<>&, llvm::Function* function, uint32_t slot) const override {
    return function->getArg(slot);
  }
  llvm::Value* Integer(llvm::IRBuilder<>&, llvm::Function* function, uint32_t slot) const override {
    return function->getArg(slot);
  }

  // Threads of the host's have no part in it.
  std::pair<llvm::Value*, llvm::Value*> Share(llvm::Function*) const override { return {nullptr, nullptr}; }
  llvm::Value* Stop(llvm::Function*) const override { return nullptr; }

  // Coordinates with no item of their own, "idx", are those of groups.
  llvm::Value* Coordinate(llvm::IRBuilder<>& builder, absl::string_view name) const override {
    char kind = 0;
    int axis = 0;
    KILN_CHECK(ParseCoordinate(std::string(name), kind, axis));
    llvm::Value* coordinate = builder.CreateIntrinsic(Register(kind == 'l', axis), {});
    return builder.CreateZExt(coordinate, builder.getInt64Ty());
  }

  std::array<int64_t, 3> Items(const UOp* linear) const override { return ItemsOf(linear); }
  int64_t SharedBytesOf(const GroupProduct& product) const override { return ProductSharedBytes(product); }
  // Of both vendors' widest accesses; what is aligned to less is cut into smaller ones.
  uint64_t VectorAlignment() const override { return 16; }

  llvm::Value* SharedArray(llvm::Function* function, llvm::Type* type) const override {
    auto* array = new llvm::GlobalVariable(  // the module's
        *function->getParent(), type, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
        llvm::PoisonValue::get(type), SharedArrayName(*function), nullptr, llvm::GlobalValue::NotThreadLocal,
        kSharedSpace);
    array->setAlignment(llvm::Align(kSharedAlignment));
    return array;
  }

  bool JumpsOverGates() const override { return true; }

  llvm::Value* Wmma(llvm::IRBuilder<>& builder, const WmmaArg& arg, llvm::Value* a, llvm::Value* b,
                    llvm::Value* c) const override {
    return EmitTensorCore(builder, architecture_, arg, a, b, c);
  }

 protected:
  virtual llvm::Intrinsic::ID Register(bool item, int axis) const = 0;
  // That `function` is a kernel, and of which groups.
  virtual void SayGroup(llvm::Function& function, const std::array<int64_t, 3>& items) const = 0;

  const std::string& architecture() const { return architecture_; }

 private:
  const std::string architecture_;
};

class Nvptx : public GpuAbi {
 public:
  using GpuAbi::GpuAbi;

  void Barrier(llvm::IRBuilder<>& builder) const override {
    builder.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {}, {builder.getInt32(0)});
  }

  std::vector<llvm::Value*> Multiply(llvm::IRBuilder<>& builder, const GroupProduct& product, const ProductSide& a,
                                     const ProductSide& b, llvm::Value* shared, uint64_t alignment) const override {
    llvm::Value* item = builder.CreateTrunc(Coordinate(builder, "lidx0"), builder.getInt32Ty());
    switch (product.tile->unit) {
      case MatrixTile::kMmaSync: return EmitMmaProduct(builder, architecture(), product, a, b, item, shared, alignment);
      case MatrixTile::kWgmma: return EmitWgmmaProduct(builder, product, a, b, shared, alignment);
      case MatrixTile::kFma: return EmitFmaProduct(builder, product, a, b, item, shared, alignment);
      case MatrixTile::kMfma:
      case MatrixTile::kWmma: break;
    }
    KILN_CHECK(false);
  }

  llvm::Value* Exchange(llvm::IRBuilder<>& builder, llvm::Value* word, int64_t mask,
                        llvm::Value* members) const override {
    constexpr uint32_t kWholeWarp = 0x1f;
    return builder.CreateIntrinsic(
        llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
        {members, word, builder.getInt32(static_cast<uint32_t>(mask)), builder.getInt32(kWholeWarp)});
  }

 protected:
  llvm::Intrinsic::ID Register(bool item, int axis) const override {
    static constexpr llvm::Intrinsic::ID kItems[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x,
                                                     llvm::Intrinsic::nvvm_read_ptx_sreg_tid_y,
                                                     llvm::Intrinsic::nvvm_read_ptx_sreg_tid_z};
    static constexpr llvm::Intrinsic::ID kGroups[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                                      llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                                      llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
    return (item ? kItems : kGroups)[axis];
  }

  void SayGroup(llvm::Function& function, const std::array<int64_t, 3>& items) const override {
    function.setCallingConv(llvm::CallingConv::PTX_Kernel);
    function.addFnAttr("nvvm.maxntid", absl::StrCat(items[0], ",", items[1], ",", items[2]));
  }
};

class Amdgpu : public GpuAbi {
 public:
  using GpuAbi::GpuAbi;

  void Barrier(llvm::IRBuilder<>& builder) const override {
    const llvm::SyncScope::ID group = builder.getContext().getOrInsertSyncScopeID("workgroup");
    builder.CreateFence(llvm::AtomicOrdering::Release, group);
    builder.CreateIntrinsic(llvm::Intrinsic::amdgcn_s_barrier, {});
    builder.CreateFence(llvm::AtomicOrdering::Acquire, group);
  }

  std::vector<llvm::Value*> Multiply(llvm::IRBuilder<>& builder, const GroupProduct& product, const ProductSide& a,
                                     const ProductSide& b, llvm::Value* shared, uint64_t alignment) const override {
    llvm::Value* item = builder.CreateTrunc(Coordinate(builder, "lidx0"), builder.getInt32Ty());
    return EmitWaveProduct(builder, *this, architecture(), product, a, b, item, shared, alignment);
  }

  llvm::Value* Exchange(llvm::IRBuilder<>& builder, llvm::Value* word, int64_t mask, llvm::Value*) const override {
    // Of each half of a wavefront: bits that are kept, and bits that are turned.
    const auto pattern = static_cast<uint32_t>(0x1f | mask << 10);
    return builder.CreateIntrinsic(llvm::Intrinsic::amdgcn_ds_swizzle, {}, {word, builder.getInt32(pattern)});
  }

 protected:
  llvm::Intrinsic::ID Register(bool item, int axis) const override {
    static constexpr llvm::Intrinsic::ID kItems[] = {llvm::Intrinsic::amdgcn_workitem_id_x,
                                                     llvm::Intrinsic::amdgcn_workitem_id_y,
                                                     llvm::Intrinsic::amdgcn_workitem_id_z};
    static constexpr llvm::Intrinsic::ID kGroups[] = {llvm::Intrinsic::amdgcn_workgroup_id_x,
                                                      llvm::Intrinsic::amdgcn_workgroup_id_y,
                                                      llvm::Intrinsic::amdgcn_workgroup_id_z};
    return (item ? kItems : kGroups)[axis];
  }

  void SayGroup(llvm::Function& function, const std::array<int64_t, 3>& items) const override {
    function.setCallingConv(llvm::CallingConv::AMDGPU_KERNEL);
    const int64_t all = items[0] * items[1] * items[2];
    function.addFnAttr("amdgpu-flat-work-group-size", absl::StrCat(all, ",", all));
    function.addFnAttr("uniform-work-group-size", "true");
    // Else a tile of matrix instructions is copied to accumulation registers and back.
    function.addFnAttr("amdgpu-agpr-alloc", "0");
    // What a runtime would have to pass besides, and nothing here reads.
    for (const char* unused :
         {"amdgpu-no-default-queue", "amdgpu-no-completion-action", "amdgpu-no-heap-ptr", "amdgpu-no-hostcall-ptr",
          "amdgpu-no-implicitarg-ptr", "amdgpu-no-multigrid-sync-arg", "amdgpu-no-queue-ptr", "amdgpu-no-dispatch-ptr",
          "amdgpu-no-dispatch-id", "amdgpu-no-lds-kernel-id"})
      function.addFnAttr(unused);
  }
};

}  // namespace

std::string SharedArrayName(const llvm::Function& function) {
  return absl::StrCat(function.getName().str(), ".shared");
}

std::unique_ptr<KernelAbi> MakeGpuAbi(const v1::Target& target) {
  if (target.kind() == v1::Target::NVPTX) return std::make_unique<Nvptx>(target.arch());
  return std::make_unique<Amdgpu>(target.arch());
}

}  // namespace kiln::compiler
