#include "compiler/target/llvm/program_emitter.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/target/llvm/aligned_way.h"
#include "compiler/target/llvm/custom_code.h"
#include "compiler/target/llvm/loop_emitter.h"
#include "compiler/target/llvm/memory_emitter.h"
#include "compiler/target/llvm/values/emit_alu.h"
#include "compiler/target/llvm/values/values.h"
#include "llvm/IR/Intrinsics.h"

namespace kiln::compiler {
namespace {

class ProgramEmitter {
 public:
  // Emits `linear` into `block`. Parameters begin at multiples of `alignment` bytes.
  ProgramEmitter(llvm::Function* function, llvm::BasicBlock* block, const UOp* linear, const EmitOptions& options,
                 uint64_t alignment)
      : function_(function),
        builder_(block),
        abi_(*options.abi),
        memory_(builder_, function, abi_, /*lane_by_lane=*/true),
        loops_(builder_, function, abi_, linear),
        linear_(linear) {
    memory_.AlignParameters(alignment);
    llvm::FastMathFlags flags;
    flags.setAllowContract(options.contraction);
    builder_.setFastMathFlags(flags);
    if (options.guard_arrays) memory_.GuardArrays();
  }

  absl::Status Run() {
    for (UOp* uop : linear_->src()) {
      if (uop->op() == Op::CUSTOM || uop->op() == Op::CUSTOMI) {
        KILN_RETURN_IF_ERROR(EmitCode(uop));
      } else {
        Emit(uop);
      }
    }
    KILN_CHECK(scopes_.empty());
    loops_.Finish();
    memory_.Finish();
    builder_.CreateRetVoid();
    return absl::OkStatus();
  }

 private:
  struct Scope {
    std::optional<EmittedLoop> loop;  // nothing: an IF
    llvm::BasicBlock* endif = nullptr;
  };

  void Emit(UOp* uop) {
    if (IsElementwise(uop->op())) return EmitElementwise(uop);
    switch (As<ProgramOp>(uop->op())) {
      case ProgramOp::CONST:
        values_[uop] = {ConstantOf(builder_.getContext(), uop->dtype(), uop->arg_as<ConstArg>().bits)};
        return;
      case ProgramOp::PARAM:
        if (uop->IsVariable()) {
          values_[uop] = {memory_.Variable(uop)};
        } else {
          memory_.AddParameter(uop);
        }
        return;
      case ProgramOp::BUFFER: memory_.AddArray(uop); return;
      case ProgramOp::SPECIAL: values_[uop] = {abi_.Coordinate(builder_, uop->arg_as<TextArg>().text), true, 0}; return;
      case ProgramOp::BARRIER: abi_.Barrier(builder_); return;
      case ProgramOp::STACK: return EmitStack(uop);
      case ProgramOp::BITCAST: return EmitBits(uop);
      case ProgramOp::INDEX: return EmitLane(uop);
      case ProgramOp::RANGE: return OpenLoop(uop);
      case ProgramOp::IF: return OpenIf(uop);
      case ProgramOp::END:
      case ProgramOp::ENDIF: return Close();
      case ProgramOp::LOAD: return EmitLoad(uop);
      case ProgramOp::STORE: return EmitStore(uop);
      case ProgramOp::ATOMICADD: return EmitAtomicAdd(uop);
      case ProgramOp::WMMA: {
        const auto operand = [&](size_t i) { return Vector(uop->src(i), LanesOf(uop->src(i)->shape())); };
        values_[uop] = {abi_.Wmma(builder_, uop->arg_as<WmmaArg>(), operand(0), operand(1), operand(2))};
        return;
      }
      case ProgramOp::AFTER: values_[uop] = Element(values_.at(uop->src(0))); return;
      // In no program as it is listed for this emitter.
      case ProgramOp::PERMUTE:
      case ProgramOp::FLIP:
      case ProgramOp::RESHAPE:
      case ProgramOp::EXPAND:
      case ProgramOp::PAD:
      case ProgramOp::SHRINK:
      case ProgramOp::REPLICATED:
      case ProgramOp::REDUCE:
      case ProgramOp::GROUP:
      case ProgramOp::SINK:
      case ProgramOp::LINEAR:
      case ProgramOp::CUSTOM:
      case ProgramOp::CUSTOMI: break;
    }
    KILN_CHECK(false);
  }

  // -- Control. A loop may have no iteration at all.

  llvm::BasicBlock* NewBlock(const char* name) {
    return llvm::BasicBlock::Create(builder_.getContext(), name, function_);
  }

  void OpenLoop(UOp* range) {
    const bool shared = range->arg_as<RangeArg>().type == AxisType::kThread;
    const auto [first, share] = shared ? abi_.Share(function_) : std::pair<llvm::Value*, llvm::Value*>();
    const bool thread = first != nullptr;
    llvm::Value* begin = thread ? first : builder_.getInt64(0);
    llvm::Value* end = Vector(range->src(0), 1);
    if (thread) {
      // Shares are of the greatest bound: the last of them may end early.
      end = range->src(0)->IsConst() ? share : builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, share, end);
    }
    const EmittedLoop loop = loops_.Open(range, begin, end, /*may_be_empty=*/true);
    scopes_.push_back({loop});
    values_[range] = {loop.iteration, true, 0};
  }

  void OpenIf(UOp* uop) {
    llvm::BasicBlock* then = NewBlock("then");
    llvm::BasicBlock* endif = NewBlock("endif");
    builder_.CreateCondBr(Vector(uop->src(0), 1), then, endif);
    builder_.SetInsertPoint(then);
    scopes_.push_back({std::nullopt, endif});
  }

  void Close() {
    const Scope scope = scopes_.back();
    scopes_.pop_back();
    if (scope.loop.has_value()) {
      loops_.Close(*scope.loop);
    } else {
      builder_.CreateBr(scope.endif);
      builder_.SetInsertPoint(scope.endif);
    }
  }

  // -- Values

  // `uop` in `lanes`: one value serves them all.
  llvm::Value* Vector(const UOp* uop, int64_t lanes) {
    Element element = values_.at(uop);
    if (LanesOf(uop->shape()) == 1 && lanes > 1) element = {element.value, true, 0};
    return Materialize(builder_, element, lanes);
  }

  void EmitElementwise(UOp* uop) {
    const int64_t lanes = LanesOf(uop->shape());
    Element element;
    if (uop->op() != Op::ADD || uop->dtype() != kIndexType || lanes == 1 || !EmitAffineSum(uop, element)) {
      std::vector<llvm::Value*> operands;
      for (UOp* source : uop->src()) operands.push_back(Vector(source, lanes));
      element = {EmitAlu(builder_, *uop, operands)};
    }
    values_[uop] = element;
  }

  // Neighbours from a computed place on stay so: base + step * lane.
  bool EmitAffineSum(UOp* uop, Element& result) {
    auto affine = [&](const UOp* source) -> Element {
      Element element = values_.at(source);
      return LanesOf(source->shape()) == 1 ? Element{element.value, true, 0} : element;
    };
    const Element a = affine(uop->src(0)), b = affine(uop->src(1));
    if (!a.affine || !b.affine) return false;
    result = {builder_.CreateAdd(a.value, b.value), true, a.step + b.step};
    return true;
  }

  // Counting constants are affine.
  bool EmitCount(UOp* uop) {
    if (uop->dtype() != kIndexType) return false;
    for (const UOp* source : uop->src()) {
      if (!source->IsConst()) return false;
    }
    const int64_t first = uop->src(0)->const_int();
    for (size_t i = 0; i < uop->src().size(); ++i) {
      const int64_t lane = uop->src(i)->const_int();
      if (lane < first || static_cast<uint64_t>(lane) - static_cast<uint64_t>(first) != i) return false;
    }
    values_[uop] = {builder_.getInt64(static_cast<uint64_t>(first)), true, 1};
    return true;
  }

  // A client's own code is a function, made once. Its result may be poison: frozen, it is
  // one value, and a bound that it was compared with holds.
  absl::Status EmitCode(UOp* uop) {
    llvm::Function*& function = code_[uop];
    if (function == nullptr) {
      KILN_ASSIGN_OR_RETURN(function, AddCustomCode(*function_->getParent(), uop));
    }
    std::vector<llvm::Value*> operands;
    for (const UOp* source : uop->src()) operands.push_back(Vector(source, 1));
    llvm::Value* call = builder_.CreateCall(function, operands);
    if (uop->op() == Op::CUSTOMI) values_[uop] = {builder_.CreateFreeze(call)};
    return absl::OkStatus();
  }

  void EmitStack(UOp* uop) {
    const int64_t lanes = LanesOf(uop->shape());
    if (lanes == 1) {
      values_[uop] = {Vector(uop->src(0), 1)};
      return;
    }
    if (EmitCount(uop)) return;
    llvm::Value* vector = llvm::PoisonValue::get(LaneType(builder_.getContext(), uop->dtype(), lanes));
    for (int64_t lane = 0; lane < lanes; ++lane) {
      vector = builder_.CreateInsertElement(vector, Vector(uop->src(static_cast<size_t>(lane)), 1),
                                            static_cast<uint64_t>(lane));
    }
    values_[uop] = {vector};
  }

  // One lane of a value; a pointer is read where it is used.
  void EmitLane(UOp* uop) {
    const UOp* source = uop->src(0);
    if (Is(source->op(), kSource)) return;
    const int64_t lanes = LanesOf(source->shape());
    llvm::Value* vector = Vector(source, lanes);
    values_[uop] = {
        lanes == 1 ? vector : builder_.CreateExtractElement(vector, static_cast<uint64_t>(uop->src(1)->const_int()))};
  }

  void EmitBits(UOp* uop) {
    const UOp* source = uop->src(0);
    const int64_t from = LanesOf(source->shape()), to = LanesOf(uop->shape());
    llvm::Value* bits = memory_.ToMemory(Vector(source, from), source->dtype());
    llvm::Type* type = MemoryType(builder_.getContext(), uop->dtype());
    if (to > 1) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(to));
    values_[uop] = {memory_.FromMemory(builder_.CreateBitCast(bits, type), uop->dtype())};
  }

  // -- Memory

  // Where the lanes of a pointer's index lie.
  Element PlaceOf(const UOp* pointer) {
    const UOp* index = pointer->src(1);
    Element place = values_.at(index);
    if (LanesOf(index->shape()) == 1) place = {place.value, true, 0};
    return place;
  }

  llvm::Value* Optional(const UOp* uop, size_t source, int64_t lanes) {
    return uop->src().size() > source ? Vector(uop->src(source), lanes) : nullptr;
  }

  void EmitLoad(UOp* uop) {
    const UOp* pointer = uop->src(0);
    const int64_t lanes = LanesOf(pointer->shape());
    llvm::Value* alt = Optional(uop, 1, lanes);
    llvm::Value* gate = Optional(uop, 2, lanes);
    if (gate == nullptr) alt = nullptr;
    llvm::Value* value = memory_.Load(pointer->src(0), PlaceOf(pointer), lanes, alt, gate);
    values_[uop] = {builder_.CreateFreeze(value)};
  }

  void EmitStore(UOp* uop) {
    const UOp* pointer = uop->src(0);
    const int64_t lanes = LanesOf(pointer->shape());
    memory_.Store(pointer->src(0), PlaceOf(pointer), lanes, Vector(uop->src(1), lanes), Optional(uop, 2, lanes));
  }

  void EmitAtomicAdd(UOp* uop) {
    const UOp* pointer = uop->src(0);
    const int64_t lanes = LanesOf(pointer->shape());
    llvm::Value* places = Vector(pointer->src(1), lanes);
    llvm::Value* values = Vector(uop->src(1), lanes);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      auto element = [&](llvm::Value* x) {
        return lanes == 1 ? x : builder_.CreateExtractElement(x, static_cast<uint64_t>(lane));
      };
      memory_.AtomicAdd(pointer->src(0), element(places), element(values));
    }
  }

  llvm::Function* function_;
  llvm::IRBuilder<> builder_;
  const KernelAbi& abi_;
  MemoryEmitter memory_;
  LoopEmitter loops_;
  const UOp* const linear_;
  absl::flat_hash_map<const UOp*, Element> values_;
  absl::flat_hash_map<const UOp*, llvm::Function*> code_;
  std::vector<Scope> scopes_;
};

// Whether it is the same said twice: arrays of a group are there once, and so are functions of a client's code.
bool MayBeTwice(const UOp* linear) {
  return std::none_of(linear->src().begin(), linear->src().end(), [](const UOp* uop) {
    return uop->op() == Op::BUFFER || uop->op() == Op::CUSTOM || uop->op() == Op::CUSTOMI;
  });
}

}  // namespace

absl::StatusOr<llvm::Function*> EmitProgram(llvm::Module& module, const UOp* linear, const std::string& symbol,
                                            const EmitOptions& options) {
  llvm::Function* function = options.abi->Declare(module, linear, symbol);
  auto* entry = llvm::BasicBlock::Create(module.getContext(), "entry", function);
  const std::optional<AlignedWay> ways =
      MayBeTwice(linear) ? ChooseAlignedWay(entry, linear, *options.abi) : std::nullopt;
  if (ways.has_value()) {
    KILN_RETURN_IF_ERROR(ProgramEmitter(function, ways->aligned, linear, options, ways->alignment).Run());
  }
  llvm::BasicBlock* anywhere = ways.has_value() ? ways->anywhere : entry;
  KILN_RETURN_IF_ERROR(ProgramEmitter(function, anywhere, linear, options, 1).Run());
  return function;
}

}  // namespace kiln::compiler
