#include "compiler/target/llvm/kernel_emitter.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "compiler/structure/rounding.h"
#include "compiler/target/llvm/aligned_way.h"
#include "compiler/target/llvm/group_memory.h"
#include "compiler/target/llvm/group_reduce.h"
#include "compiler/target/llvm/loop_emitter.h"
#include "compiler/target/llvm/memory_emitter.h"
#include "compiler/target/llvm/prefetch.h"
#include "compiler/target/llvm/row_order.h"
#include "compiler/target/llvm/streamed_stores.h"
#include "compiler/target/llvm/tiles/matrix_unit.h"
#include "compiler/target/llvm/unroll_hint.h"
#include "compiler/target/llvm/values/affine.h"
#include "compiler/target/llvm/values/emit_alu.h"
#include "compiler/target/llvm/values/emit_dot.h"
#include "compiler/target/llvm/values/move_lanes.h"
#include "compiler/target/llvm/values/reduce_lanes.h"
#include "compiler/target/llvm/values/transpose_tile.h"
#include "compiler/target/llvm/values/values.h"

namespace kiln::compiler {
namespace {

class KernelEmitter {
 public:
  // Emits `linear` into `block`. Parameters begin at multiples of `alignment` bytes.
  KernelEmitter(llvm::Function* function, llvm::BasicBlock* block, const UOp* linear, const EmitOptions& options,
                uint64_t alignment, GroupMemory group)
      : function_(function),
        builder_(block),
        abi_(*options.abi),
        memory_(builder_, function, abi_),
        loops_(builder_, function, abi_, linear),
        matrix_unit_(builder_, function, linear, options.matrix_unit_by_loops),
        linear_(linear),
        threads_(options.threads),
        rounds_(options.rounds),
        alignment_(alignment),
        group_(group) {
    memory_.Stream(options.streamed);
    memory_.AlignParameters(alignment);
    llvm::FastMathFlags flags;
    flags.setAllowContract(options.contraction);
    builder_.setFastMathFlags(flags);
  }

  void Run() {
    prefetches_ = FindPrefetches(linear_, threads_);
    matrix_unit_.Begin();
    // GPUs' items have registers for a tile and what is made of it.
    const int64_t many = abi_.VectorAlignment() == 1 ? kManyRows : kNeverSoManyRows;
    for (const EmitStep& step : InRowOrder(prefetches_.list, many))
      step.row == kAllRows ? Emit(step.uop) : EmitRow(step.uop, step.row);
    loops_.Finish();
    matrix_unit_.Finish();
    memory_.Finish();
    builder_.CreateRetVoid();
  }

 private:
  const Value& At(const UOp* uop) const { return values_.at(uop); }

  void Emit(UOp* uop) {
    if (IsByRows(uop) || uop->op() == Op::STORE) {
      const int64_t rows = RowsOf(uop->op() == Op::STORE ? WithoutOrder(uop->src(0))->shape() : uop->shape());
      for (int64_t row = 0; row < rows; ++row) EmitRow(uop, row);
      return;
    }
    switch (As<KernelOp>(uop->op())) {
      case KernelOp::CONST:
        values_[uop] = {{}, {{ConstantOf(builder_.getContext(), uop->dtype(), uop->arg_as<ConstArg>().bits)}}};
        return;
      case KernelOp::PARAM:
        if (!uop->IsVariable()) return memory_.AddParameter(uop);
        values_[uop] = {{}, {{memory_.Variable(uop)}}};
        return;
      case KernelOp::BUFFER:
        if (matrix_unit_.Holds(uop)) return;
        return uop->addrspace() == AddrSpace::kLocal ? memory_.AddArray(uop) : memory_.AddRegisters(uop);
      case KernelOp::SPECIAL:
        values_[uop] = {{}, {{abi_.Coordinate(builder_, uop->arg_as<TextArg>().text), true, 0}}};
        return;
      case KernelOp::STACK: return EmitStack(uop);
      case KernelOp::EXPAND:
      case KernelOp::RESHAPE: return EmitReshape(uop);
      case KernelOp::PERMUTE: values_[uop] = Transposed(builder_, At(uop->src(0)), uop->shape()); return;
      case KernelOp::SHRINK:
      case KernelOp::PAD: return EmitMove(uop);
      case KernelOp::BITCAST: return EmitWords(uop);
      case KernelOp::WMMA:
        if (const auto product = GroupProductOf(uop)) return EmitGroupProduct(uop, *product);
        if (const auto product = CoreProductOf(uop)) return EmitCoreProduct(uop, *product);
        return EmitDots(uop);
      case KernelOp::RANGE:
        if (const auto loads = prefetches_.before.find(uop); loads != prefetches_.before.end()) {
          for (const UOp* load : loads->second) EmitPrefetch(load);
        }
        return OpenLoop(uop);
      case KernelOp::END:
        for (size_t k = uop->src().size(); k-- > 1;) CloseLoop(uop->src(k));
        return;
      case KernelOp::REDUCE: return EmitReduce(uop);
      case KernelOp::AFTER:
      case KernelOp::INDEX:
        return;  // read where they are used
      // In no linear kernel (kLinearSpec); LINEAR is the list itself.
      case KernelOp::FLIP:
      case KernelOp::REPLICATED:
      case KernelOp::GROUP:
      case KernelOp::SINK:
      case KernelOp::LINEAR:
      case KernelOp::LOAD:
      case KernelOp::STORE: break;  // by rows
    }
    KILN_CHECK(false);
  }

  // Rows come in order, from the first.
  void EmitRow(UOp* uop, int64_t row) {
    if (uop->op() == Op::STORE) return EmitStore(uop, row);
    if (uop->op() == Op::LOAD && matrix_unit_.IsAddedTo(uop)) return;
    if (row == 0) values_[uop] = {uop->shape(), {}};
    const Element element = uop->op() == Op::LOAD      ? EmitLoad(uop, row)
                            : uop->op() == Op::BITCAST ? EmitBitcastRow(uop, row)
                                                       : EmitElementwise(uop, row);
    values_[uop].elements.push_back(element);
  }

  // -- Loops. There may be no iteration in a thread's share, and for a bound that may be 0.

  void OpenLoop(UOp* range) {
    const UOp* bound = range->src(0);
    const bool shared = range->arg_as<RangeArg>().type == AxisType::kThread;
    const auto [first, share] = shared ? abi_.Share(function_) : std::pair<llvm::Value*, llvm::Value*>();
    const bool thread = first != nullptr;
    llvm::Value* begin = thread ? first : builder_.getInt64(0);
    llvm::Value* end = Operand(bound, {}, 0);
    if (bound->dtype() != kIndexType)
      end = builder_.CreateIntCast(end, builder_.getInt64Ty(), IsSigned(bound->dtype()));
    if (thread) {
      // Shares are of the greatest bound: the last of them may end early.
      end = bound->IsConst() ? share : builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, share, end);
    }
    const EmittedLoop loop = loops_.Open(range, begin, end, thread || bound->bounds().min < 1);
    opened_[range] = loop;
    innermost_ = range;
    values_[range] = {{}, {{loop.iteration, true, 0}}};
  }

  void CloseLoop(const UOp* range) {
    const EmittedLoop& loop = opened_.at(range);
    llvm::BranchInst* again = loops_.Close(loop);
    if (range == innermost_ && again->getParent() == loop.body && abi_.VectorAlignment() > 1)
      RequestUnroll(range, again);
    innermost_ = nullptr;
  }

  // -- Values

  llvm::Value* Operand(const UOp* source, const Shape& shape, size_t row) {
    const Value& value = At(source);
    return Materialize(builder_, value.elements[BroadcastRow(value.shape, shape, row)], LanesOf(shape));
  }

  Element EmitElementwise(UOp* uop, int64_t row) {
    if (uop->src().size() == 2 && uop->src(0)->dtype() == kIndexType && LanesOf(uop->shape()) > 1) {
      const Element a = AffineAt(uop->src(0), uop->shape(), row), b = AffineAt(uop->src(1), uop->shape(), row);
      if (const auto element = EmitAffine(builder_, *uop, a, b)) return *element;
    }
    std::vector<llvm::Value*> operands;
    for (UOp* source : uop->src()) operands.push_back(Operand(source, uop->shape(), static_cast<size_t>(row)));
    return {EmitAlu(builder_, *uop, operands)};
  }

  Element AffineAt(const UOp* source, const Shape& shape, int64_t row) const {
    const Value& value = At(source);
    const Element& element = value.elements[BroadcastRow(value.shape, shape, static_cast<size_t>(row))];
    return LanesOf(value.shape) == 1 ? Element{element.value, true, 0} : element;
  }

  // Constants counting up by a fixed step are affine; scalars stacked to one
  // lane keep their value. Nothing else is stacked in a kernel.
  void EmitStack(UOp* uop) {
    const absl::Span<UOp* const> sources = uop->src();
    const auto is_number = [](const UOp* source) { return source->shape().empty() && source->IsConst(); };
    if (!sources.empty() && uop->dtype() == kIndexType && std::all_of(sources.begin(), sources.end(), is_number)) {
      const int64_t first = sources.front()->const_int(),
                    step = sources.size() > 1 ? sources[1]->const_int() - first : 0;
      values_[uop] = {uop->shape(), {{builder_.getInt64(static_cast<uint64_t>(first)), true, step}}};
      return;
    }
    Value result{uop->shape(), {}};
    for (UOp* source : sources)
      for (const Element& element : At(source).elements) result.elements.push_back(element);
    values_[uop] = std::move(result);
  }

  void EmitReshape(UOp* uop) {
    const Value& source = At(uop->src(0));
    Value result{uop->shape(), {}};
    for (int64_t row = 0; row < RowsOf(uop->shape()); ++row) {
      Element element = source.elements[BroadcastRow(source.shape, uop->shape(), static_cast<size_t>(row))];
      if (LanesOf(source.shape) == 1 && LanesOf(uop->shape()) > 1)
        element = {Materialize(builder_, element, LanesOf(uop->shape()))};
      result.elements.push_back(element);
    }
    values_[uop] = std::move(result);
  }

  // Of scanned lanes (kernel/lane_scan.h): SHRINK keeps one of them, or is half of a move
  // whose other half, a PAD, says what comes in.
  void EmitMove(UOp* uop) {
    const bool moves = uop->op() == Op::PAD;
    const UOp* kept = moves ? uop->src(0) : uop;
    KILN_CHECK(kept->op() == Op::SHRINK);
    const Value& source = At(kept->src(0));
    int64_t shift = kept->src(1)->src().back()->const_int();
    if (moves) shift -= uop->src(1)->src().back()->const_int();
    Value result{uop->shape(), {}};
    for (const Element& element : source.elements) {
      if (!moves && LanesOf(uop->shape()) > 1) break;  // nobody but a PAD looks at it
      llvm::Value* value = Materialize(builder_, element, LanesOf(source.shape));
      if (moves) {
        value = MoveLanes(builder_, value, shift, uop->arg_as<ConstArg>());
      } else if (value->getType()->isVectorTy()) {
        value = builder_.CreateExtractElement(value, static_cast<uint64_t>(shift));
      }
      result.elements.push_back({value});
    }
    values_[uop] = std::move(result);
  }

  Element EmitBitcastRow(UOp* uop, int64_t row) {
    if (UOp* x = rounds_ ? RoundedIn(uop) : nullptr; x != nullptr && values_.contains(x)) {
      llvm::Value* operand = Operand(x, uop->shape(), static_cast<size_t>(row));
      return {builder_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, operand)};
    }
    llvm::Value* operand = Operand(uop->src(0), uop->shape(), static_cast<size_t>(row));
    return {EmitBitcast(builder_, operand, uop->src(0)->dtype(), uop->dtype())};
  }

  // Words of lanes that lie beside each other.
  void EmitWords(UOp* uop) {
    Value result{uop->shape(), {}};
    for (int64_t row = 0; row < RowsOf(uop->shape()); ++row) {
      llvm::Value* operand = Operand(uop->src(0), uop->src(0)->shape(), static_cast<size_t>(row));
      llvm::Type* type = LaneType(builder_.getContext(), uop->dtype(), LanesOf(uop->shape()));
      result.elements.push_back({builder_.CreateBitCast(operand, type)});
    }
    values_[uop] = std::move(result);
  }

  void EmitDots(UOp* uop) {
    Value result{uop->shape(), {}};
    for (int64_t row = 0; row < RowsOf(uop->shape()); ++row) {
      const auto at = [&](size_t source) { return Operand(uop->src(source), uop->shape(), static_cast<size_t>(row)); };
      result.elements.push_back({EmitDot(builder_, at(0), at(1), at(2))});
    }
    values_[uop] = std::move(result);
  }

  void EmitGroupProduct(UOp* uop, const GroupProduct& product) {
    const auto side = [&](const GroupProduct::Side& of) {
      std::vector<llvm::Value*> windows;
      for (const auto& window : of.windows) windows.push_back(Operand(window.offset, {}, 0));
      llvm::Value* pointer = abi_.Pointer(builder_, function_, of.param->arg_as<BufferArg>().slot);
      return ProductSide{pointer, Operand(of.offset, {}, 0), Operand(of.first, {}, 0), windows};
    };
    const auto made = abi_.Multiply(builder_, product, side(product.a), side(product.b), group_.product, alignment_);
    values_[uop] = {uop->shape(), InLanes(builder_, made, LanesOf(uop->shape()))};
  }
  void EmitCoreProduct(const UOp* uop, const CoreProduct& product) {
    llvm::Value* a = memory_.Address(WithoutOrder(product.a.storage), Operand(product.a.first, {}, 0));
    llvm::Value* b = memory_.Address(WithoutOrder(product.b.storage), Operand(product.b.first, {}, 0));
    matrix_unit_.Multiply(product, a, b);
    EmitAhead(uop, b);
  }

  // -- Memory

  Element EmitLoad(UOp* uop, int64_t at_row) {
    const auto row = static_cast<size_t>(at_row);
    UOp* source = WithoutOrder(uop->src(0));
    const int64_t lanes = LanesOf(uop->shape());
    if (matrix_unit_.Holds(source)) {
      if (row == 0) matrix_unit_.Spill(source);
      return {matrix_unit_.Read(source, at_row, lanes)};
    }
    if (source->op() == Op::BUFFER) return {memory_.ReadRegister(source, at_row)};
    KILN_CHECK(source->op() == Op::INDEX);
    const Value& index = At(source->src(1));
    if (row == 0 && prefetches_.ahead.contains(uop))
      EmitAhead(uop, memory_.Address(source->src(0), index.elements[0].value));
    const Element& at = index.elements[BroadcastRow(index.shape, uop->shape(), row)];
    llvm::Value* alt = uop->src().size() > 1 ? Operand(uop->src(1), uop->shape(), row) : nullptr;
    llvm::Value* gate = uop->src().size() > 2 ? Operand(uop->src(2), uop->shape(), row) : nullptr;
    // One place for all lanes is one scalar load.
    const Element place = LanesOf(index.shape) == 1 ? Element{at.value, true, 0} : at;
    return {memory_.Load(WithoutOrder(source->src(0)), place, lanes, alt, gate)};
  }

  // Asks for what `load` will read.
  void EmitPrefetch(const UOp* load) {
    const UOp* source = load->src(0);
    const Value& index = At(source->src(1));
    for (const AskedRow& asked : AskedRowsOf(load)) {
      Element place = index.elements[static_cast<size_t>(asked.row)];
      if (LanesOf(index.shape) == 1) place = {place.value, true, 0};
      memory_.Prefetch(source->src(0), place, asked.elements);
    }
  }

  // Asks for what will be read, where now `uop` reads from `address` on.
  void EmitAhead(const UOp* uop, llvm::Value* address) {
    const auto ahead = prefetches_.ahead.find(uop);
    if (ahead == prefetches_.ahead.end()) return;
    const auto at = [this](const UOp* loop) { return Operand(loop, {}, 0); };
    for (llvm::Value* line : LinesAhead(builder_, ahead->second, address, at)) memory_.Prefetch(line);
  }

  void EmitStore(UOp* uop, int64_t at_row) {
    const auto row = static_cast<size_t>(at_row);
    UOp* target = WithoutOrder(uop->src(0));
    if (matrix_unit_.Holds(target)) {
      if (row == 0 && uop->src(1)->op() != Op::WMMA) matrix_unit_.Clear(target);  // or it is there by now
      return;
    }
    const Shape& full = target->shape();  // a register's, or an index's
    llvm::Value* value = Operand(uop->src(1), full, row);
    if (target->op() == Op::BUFFER) return memory_.WriteRegister(target, at_row, value);
    const Value& index = At(target->src(1));
    Element place = index.elements[BroadcastRow(index.shape, full, row)];
    if (LanesOf(index.shape) == 1) place = {place.value, true, 0};
    llvm::Value* gate = uop->src().size() > 2 ? Operand(uop->src(2), full, row) : nullptr;
    memory_.Store(WithoutOrder(target->src(0)), place, LanesOf(full), value, gate);
  }

  // -- Reductions of lanes

  void EmitReduce(UOp* uop) {
    if (uop->src().size() > 1) return EmitReduceOverItems(uop);
    values_[uop] = ReduceInto(builder_, uop->arg_as<ReduceArg>().op, uop->dtype(), At(uop->src(0)), uop->shape());
  }

  void EmitReduceOverItems(UOp* uop) {
    if (!group_reduce_.has_value()) group_reduce_.emplace(builder_, abi_, abi_.Items(linear_), group_.reduction);
    const int64_t lanes = LanesOf(uop->shape());
    std::vector<llvm::Value*> rows;
    for (int64_t row = 0; row < RowsOf(uop->shape()); ++row)
      rows.push_back(memory_.ToMemory(Operand(uop->src(0), uop->shape(), static_cast<size_t>(row)), uop->dtype()));
    Value result{uop->shape(), {}};
    for (llvm::Value* row : group_reduce_->ReduceRows(uop, rows, lanes))
      result.elements.push_back({memory_.FromMemory(row, uop->dtype())});
    values_[uop] = std::move(result);
  }

  llvm::Function* function_;
  llvm::IRBuilder<> builder_;
  const KernelAbi& abi_;
  MemoryEmitter memory_;
  LoopEmitter loops_;
  MatrixUnit matrix_unit_;
  Prefetches prefetches_;
  const UOp* const linear_;
  const int64_t threads_;
  const bool rounds_;
  const uint64_t alignment_;
  const GroupMemory group_;
  const UOp* innermost_ = nullptr;  // the loop that was opened last, if nothing was closed since
  std::optional<GroupReduce> group_reduce_;
  absl::flat_hash_map<const UOp*, Value> values_;
  absl::flat_hash_map<const UOp*, EmittedLoop> opened_;
};

}  // namespace

llvm::Function* EmitKernel(llvm::Module& module, const UOp* linear, const std::string& symbol,
                           const EmitOptions& options) {
  llvm::Function* function = options.abi->Declare(module, linear, symbol);
  auto* entry = llvm::BasicBlock::Create(module.getContext(), "entry", function);
  const GroupMemory group = GroupMemoryOf(linear, function, *options.abi);
  const std::optional<AlignedWay> ways = ChooseAlignedWay(entry, linear, *options.abi);
  if (ways.has_value()) KernelEmitter(function, ways->aligned, linear, options, ways->alignment, group).Run();
  KernelEmitter(function, ways.has_value() ? ways->anywhere : entry, linear, options, 1, group).Run();
  return function;
}

}  // namespace kiln::compiler
