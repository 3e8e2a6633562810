#include "compiler/target/gpu/wgmma_kernel.h"

#include "compiler/ir/dtype.h"
#include "compiler/structure/product_box.h"
#include "compiler/target/gpu/wgmma_product.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Function.h"

namespace kiln::compiler {
namespace {

constexpr uint64_t kMapBytes = 128, kMapAlignment = 64;
constexpr uint64_t kEngineAlignment = 16;

WgmmaTile TileOf(const GroupProduct& product) {
  WgmmaTile tile;
  tile.rows = product.tile->m;
  tile.columns = product.tile->n;
  tile.in = product.in;
  tile.reduced = product.reduced;
  return tile;
}

struct Boxes {
  ProductBox a, b;
};
std::optional<Boxes> BoxesOf(const GroupProduct& product) {
  const auto a = BoxOf(product.a, product.reduced), b = BoxOf(product.b, product.reduced);
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  return Boxes{*a, *b};
}

v1::TensorMap MapOf(const GroupProduct::Side& side, const ProductBox& box, int64_t rows, DType in) {
  const auto bytes = [](int64_t elements) { return static_cast<uint64_t>(2 * elements); };
  const WgmmaBox of = WgmmaBoxOf(rows, box.rows_beside_each_other);
  v1::TensorMap map;
  map.set_operand(side.param->arg_as<BufferArg>().slot);
  map.set_offset_bytes(bytes(box.begin));
  map.set_dtype(ToWire(in));
  map.add_sizes(static_cast<uint64_t>(box.inner));
  map.add_sizes(static_cast<uint64_t>(box.outer));
  map.add_strides_bytes(bytes(box.step));
  map.add_box(static_cast<uint32_t>(of.inner));
  map.add_box(static_cast<uint32_t>(of.outer));
  if (box.matrices > 1) {
    map.add_sizes(static_cast<uint64_t>(box.matrices));
    map.add_strides_bytes(bytes(box.matrix_step));
    map.add_box(1);
  }
  map.set_swizzle_bytes(kWgmmaSwizzle);
  return map;
}

WgmmaSide SideOf(llvm::IRBuilder<>& builder, const GroupProduct::Side& side, const ProductSide& at,
                 const std::optional<ProductBox>& box) {
  WgmmaSide of;
  of.pointer = at.pointer;
  of.offset = at.offset;
  of.first = at.first;
  of.size = side.size;
  of.step = side.step;
  of.step_k = side.step_k;
  if (box.has_value() && box->matrices > 1) {
    const auto number = [&](int64_t value) { return builder.getInt64(static_cast<uint64_t>(value)); };
    llvm::Value* begin = builder.CreateSub(at.offset, builder.CreateMul(at.first, number(side.step)));
    of.matrix = builder.CreateUDiv(builder.CreateSub(begin, number(box->begin)), number(box->matrix_step));
  }
  return of;
}

}  // namespace

// Where the memory begins is for the linker to say, at a multiple of less than is wanted.
int64_t WgmmaKernelSharedBytes(const GroupProduct& product) {
  return static_cast<int64_t>(WgmmaSharedBytes(TileOf(product)) + kWgmmaAlignment);
}

std::vector<v1::TensorMap> TensorMapsOf(const UOp* linear) {
  for (const UOp* uop : linear->src()) {
    const auto product = GroupProductOf(uop);
    if (!product.has_value() || product->tile->unit != MatrixTile::kWgmma) continue;
    const auto boxes = BoxesOf(*product);
    if (!boxes.has_value()) return {};
    return {MapOf(product->a, boxes->a, product->tile->m, product->in),
            MapOf(product->b, boxes->b, product->tile->n, product->in)};
  }
  return {};
}

void SayTensorMaps(llvm::Function& function, unsigned first, size_t count) {
  llvm::LLVMContext& context = function.getContext();
  llvm::Type* bytes = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), kMapBytes);
  for (unsigned n = first; n < first + count; ++n) {
    function.addParamAttr(n, llvm::Attribute::getWithByValType(context, bytes));
    function.addParamAttr(n, llvm::Attribute::getWithAlignment(context, llvm::Align(kMapAlignment)));
    function.addParamAttr(n, llvm::Attribute::get(context, "nvvm.grid_constant"));
  }
}

std::vector<llvm::Value*> EmitWgmmaProduct(llvm::IRBuilder<>& builder, const GroupProduct& product,
                                           const ProductSide& a, const ProductSide& b, llvm::Value* shared,
                                           uint64_t alignment) {
  const auto boxes = alignment % kEngineAlignment == 0 ? BoxesOf(product) : std::nullopt;
  WgmmaSide of_a = SideOf(builder, product.a, a, boxes.has_value() ? std::optional(boxes->a) : std::nullopt);
  WgmmaSide of_b = SideOf(builder, product.b, b, boxes.has_value() ? std::optional(boxes->b) : std::nullopt);
  if (boxes.has_value()) {
    llvm::Function* function = builder.GetInsertBlock()->getParent();
    const auto count = static_cast<unsigned>(function->arg_size());
    of_a.map = function->getArg(count - 2);
    of_b.map = function->getArg(count - 1);
  }
  llvm::Value* address = builder.CreatePtrToInt(shared, builder.getInt32Ty());
  llvm::Value* before = builder.CreateAnd(builder.CreateNeg(address), kWgmmaAlignment - 1);
  llvm::Value* aligned = builder.CreateGEP(builder.getInt8Ty(), shared, before);
  return EmitWgmma(builder, TileOf(product), of_a, of_b, aligned, boxes.has_value());
}

}  // namespace kiln::compiler
