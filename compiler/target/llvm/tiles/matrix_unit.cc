// Tested by tests/conformance/schedules/core_products_test.cc.
#include "compiler/target/llvm/tiles/matrix_unit.h"

#include <optional>

#include "base/check.h"
#include "compiler/target/llvm/tiles/tile_code.h"
#include "compiler/target/llvm/values/values.h"

namespace kiln::compiler {
namespace {

// Which registers a product's tiles are in.
class Registers {
 public:
  explicit Registers(const CoreProduct& product)
      : down_(product.down()), across_(product.across()), b_(kTileRegisters - down_ * across_ - down_) {}

  int64_t Sum(int64_t row, int64_t column) const { return row * across_ + column; }
  int64_t A(int64_t row) const { return down_ * across_ + row; }
  int64_t B(int64_t column) const { return down_ * across_ + down_ + column % b_; }

 private:
  int64_t down_, across_, b_;
};

TileShapes ShapesOf(const CoreProduct& product) {
  const Registers registers(product);
  TileShapes shapes;
  const auto set = [&](int64_t tile, int64_t rows, int64_t words) {
    shapes[static_cast<size_t>(tile)] = {rows, words};
  };
  for (int64_t row = 0; row < product.down(); ++row) {
    set(registers.A(row), product.RowsOf(row), product.words);
    for (int64_t column = 0; column < product.across(); ++column)
      set(registers.Sum(row, column), product.RowsOf(row), kTileWords);
  }
  for (int64_t column = 0; column < product.across(); ++column) set(registers.B(column), product.words, kTileWords);
  return shapes;
}

}  // namespace

MatrixUnit::MatrixUnit(llvm::IRBuilder<>& builder, llvm::Function* function, const UOp* linear, bool by_loops)
    : builder_(builder), function_(function) {
  std::optional<TileShapes> shapes;
  for (const UOp* uop : linear->src()) {
    const std::optional<CoreProduct> product = CoreProductOf(uop);
    if (!product.has_value()) continue;
    const UOp* sum = uop->src(2);
    KILN_CHECK(sum->op() == Op::LOAD && WithoutOrder(sum->src(0))->op() == Op::BUFFER);
    added_to_.insert(sum);
    sums_[WithoutOrder(sum->src(0))] = {*product};
    alike_ = alike_ && (!shapes.has_value() || *shapes == ShapesOf(*product));
    shapes = ShapesOf(*product);
  }
  if (!sums_.empty()) code_ = by_loops ? TileLoops(builder, function) : AmxCode(builder, function);
}

MatrixUnit::~MatrixUnit() = default;

void MatrixUnit::Begin() {
  if (code_ != nullptr && alike_) code_->Configure(ShapesOf(sums_.begin()->second.product));
}

void MatrixUnit::Finish() {
  if (code_ != nullptr) code_->Release();
}

void MatrixUnit::Clear(const UOp* buffer) {
  const CoreProduct& product = sums_.at(buffer).product;
  if (!alike_) code_->Configure(ShapesOf(product));
  for (int64_t tile = 0; tile < product.down() * product.across(); ++tile) code_->Clear(tile);
}

void MatrixUnit::Multiply(const CoreProduct& product, llvm::Value* a, llvm::Value* b) {
  const Registers registers(product);
  const auto number = [&](int64_t value) { return builder_.getInt64(static_cast<uint64_t>(value)); };
  const auto at = [&](llvm::Value* pointer, int64_t bytes) {
    return builder_.CreateGEP(builder_.getInt8Ty(), pointer, number(bytes));
  };
  const int64_t a_step = product.a.step * ItemSize(product.a.storage->dtype()), b_step = product.b.step * 4;
  for (int64_t column = 0; column < product.across(); ++column) {
    code_->Load(registers.B(column), at(b, column * kTileWords * 4), number(b_step));
    for (int64_t row = 0; row < product.down(); ++row) {
      if (column == 0) code_->Load(registers.A(row), at(a, row * kTileRows * a_step), number(a_step));
      code_->Multiply(registers.Sum(row, column), registers.A(row), registers.B(column), product.a.dtype,
                      product.b.dtype);
    }
  }
}

void MatrixUnit::Spill(const UOp* buffer) {
  Sum& sum = sums_.at(buffer);
  const CoreProduct& product = sum.product;
  const Registers registers(product);
  if (sum.memory == nullptr) {
    llvm::Type* element = RegisterType(builder_.getContext(), buffer->dtype());
    const auto elements = static_cast<uint64_t>(product.rows * product.columns);
    llvm::BasicBlock& entry = function_->getEntryBlock();
    sum.memory = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(llvm::ArrayType::get(element, elements));
    sum.memory->setAlignment(llvm::Align(64));
  }
  for (int64_t row = 0; row < product.down(); ++row) {
    for (int64_t column = 0; column < product.across(); ++column)
      code_->Store(registers.Sum(row, column),
                   InMemory(buffer, row * kTileRows * product.columns + column * kTileWords),
                   builder_.getInt64(static_cast<uint64_t>(product.columns * 4)));
  }
}

llvm::Value* MatrixUnit::Read(const UOp* buffer, int64_t number, int64_t lanes) {
  auto* vector = llvm::FixedVectorType::get(RegisterType(builder_.getContext(), buffer->dtype()),
                                            static_cast<unsigned>(lanes));
  return builder_.CreateAlignedLoad(vector, InMemory(buffer, number * lanes), llvm::Align(4));
}

llvm::Value* MatrixUnit::InMemory(const UOp* buffer, int64_t element) {
  return builder_.CreateGEP(RegisterType(builder_.getContext(), buffer->dtype()), sums_.at(buffer).memory,
                            builder_.getInt64(static_cast<uint64_t>(element)));
}

}  // namespace kiln::compiler
