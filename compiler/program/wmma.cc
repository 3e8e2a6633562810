#include "compiler/program/wmma.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/program/program_tree.h"
#include "compiler/spec/wmma_layout.h"

namespace kiln::compiler {
namespace {

UOp* Loop(Graph& graph, int64_t bound) {
  return graph.Make(Op::RANGE, {Idx(graph, bound)}, RangeArg{graph.NextId(), AxisType::kLoop});
}

UOp* At(Graph& graph, UOp* buffer, UOp* index) { return graph.Make(Op::INDEX, {buffer, index}); }

UOp* Plus(Graph& graph, UOp* a, int64_t b) { return b == 0 ? a : Add(graph, a, Idx(graph, b)); }
UOp* Times(Graph& graph, UOp* a, int64_t b) { return Mul(graph, a, Idx(graph, b)); }

// Sums of narrow floats are float32, rounded once at the end.
DType SumDType(DType out) { return IsNarrowFloat(out) ? DType::kFloat32 : out; }

// A digit of `item`, a number below `items`.
UOp* DigitOf(Graph& graph, UOp* item, int64_t items, const Digit& digit) {
  if (digit.divide > 1) item = graph.Make(Op::FLOORDIV, {item, Idx(graph, digit.divide)});
  if (digit.modulo < items / digit.divide) item = graph.Make(Op::FLOORMOD, {item, Idx(graph, digit.modulo)});
  return digit.times == 1 ? item : Times(graph, item, digit.times);
}

UOp* MulAdd(Graph& graph, UOp* a, UOp* b, UOp* c) {
  return Add(graph, c, Mul(graph, Cast(graph, a, c->dtype()), Cast(graph, b, c->dtype())));
}

}  // namespace

UOp* ReadOf(Graph& graph, UOp* pointer) {
  return graph.Make(Op::AFTER, {graph.Make(Op::LOAD, {pointer}), Idx(graph, graph.NextId())});
}

UOp* Iota(Graph& graph, int64_t n) {
  std::vector<UOp*> lanes;
  for (int64_t i = 0; i < n; ++i) lanes.push_back(Idx(graph, i));
  return graph.Make(Op::STACK, lanes);
}

WmmaLowering::WmmaLowering(Graph& graph, UOp* program, HasWmma has) : graph_(graph), has_(std::move(has)) {
  std::map<std::string, UOp*> items;
  for (UOp* uop : Toposort(program)) {
    if (uop->op() == Op::SPECIAL && uop->arg_as<TextArg>().text[0] == 'l') items[uop->arg_as<TextArg>().text] = uop;
  }
  for (const auto& [name, given] : items) {
    // As NameValues has it.
    UOp* special = graph.Make(Op::SPECIAL, {Cast(graph, given->src(0), kIndexType)}, given->arg());
    item_ = item_ == nullptr ? special : Add(graph, item_, Mul(graph, special, Idx(graph, items_)));
    items_ *= static_cast<int64_t>(given->src(0)->bounds().max);  // a WMMA by warps stands beside a number alone
  }
  if (item_ == nullptr) item_ = Idx(graph, 0);
}

UOp* WmmaLowering::Buffer(int role, int64_t size, DType dtype, AddrSpace space) {
  UOp*& buffer = buffers_[{role, size, dtype, space}];
  if (buffer == nullptr) {
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(graph_.NextId());
    arg.dtype = dtype;
    arg.addrspace = space;
    buffer = graph_.Make(Op::BUFFER, {ShapeSource(graph_, {size})}, arg);
  }
  return buffer;
}

UOp* WmmaLowering::Read(UOp* pointer, std::vector<UOp*>& list) {
  list.push_back(ReadOf(graph_, pointer));
  return list.back();
}

absl::StatusOr<UOp*> WmmaLowering::Lower(const UOp* wmma, absl::Span<UOp* const> operands, std::vector<UOp*>& list) {
  const WmmaArg& arg = wmma->arg_as<WmmaArg>();
  const bool wave = LayoutOf(arg).has_value();
  const bool one =
      arg.threads == 1 && arg.m > 0 && arg.n > 0 && arg.k > 0 && arg.m <= 256 && arg.n <= 256 && arg.k <= 256;
  if (!one && !wave) {
    return MakeError(v1::UNSUPPORTED_OP,
                     absl::StrCat("a WMMA of n, m, k = ", arg.n, ", ", arg.m, ", ", arg.k, " by ", arg.threads,
                                  " items; this version knows any sizes up to 256 by 1 item, and ", WmmaShapes()));
  }
  const int64_t sizes[] = {arg.m * arg.k, arg.k * arg.n, arg.m * arg.n};
  for (size_t i = 0; i < 3; ++i) {
    const Shape wanted = {sizes[i] / arg.threads};
    if (operands[i]->shape() == wanted) continue;
    return MakeError(v1::SHAPE_MISMATCH, absl::StrCat("operand ", i, " of this WMMA has shape ", ToString(wanted),
                                                      ", not ", ToString(operands[i]->shape())));
  }
  if (operands[0]->dtype() != operands[1]->dtype() || operands[0]->dtype() != arg.in || operands[2]->dtype() != arg.out)
    return MakeError(v1::DTYPE_MISMATCH, "WMMA's operands are not of the dtypes that its argument names");
  if (wave && (items_ == 0 || items_ % arg.threads != 0)) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("a WMMA by ", arg.threads, " items in a work group of ", items_,
                                                    "; it takes a multiple of them"));
  }
  if (wave && has_(arg)) {
    list.push_back(graph_.Make(Op::AFTER, {graph_.Make(Op::WMMA, operands, arg), Idx(graph_, graph_.NextId())}));
    return list.back();
  }
  return wave ? OfAWave(wmma, operands, list) : OneItem(wmma, operands, list);
}

UOp* WmmaLowering::OneItem(const UOp* wmma, absl::Span<UOp* const> operands, std::vector<UOp*>& list) {
  const WmmaArg& arg = wmma->arg_as<WmmaArg>();
  UOp* memory[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t size = operands[i]->shape()[0];
    const DType dtype = i == 2 ? SumDType(arg.out) : operands[i]->dtype();
    memory[i] = Buffer(i, size, dtype, AddrSpace::kReg);
    UOp* value = Cast(graph_, operands[i], dtype);
    list.push_back(graph_.Make(Op::STORE, {At(graph_, memory[i], Iota(graph_, size)), value}));
  }
  UOp* i = Loop(graph_, arg.m);
  UOp* j = Loop(graph_, arg.n);
  UOp* l = Loop(graph_, arg.k);
  list.insert(list.end(), {i, j, l});
  UOp* a = Read(At(graph_, memory[0], Add(graph_, Times(graph_, i, arg.k), l)), list);
  UOp* b = Read(At(graph_, memory[1], Add(graph_, Times(graph_, l, arg.n), j)), list);
  UOp* place = At(graph_, memory[2], Add(graph_, Times(graph_, i, arg.n), j));
  UOp* c = Read(place, list);
  list.push_back(graph_.Make(Op::STORE, {place, MulAdd(graph_, a, b, c)}));
  for (UOp* loop : {l, j, i}) list.push_back(Closing(graph_, loop));
  return Cast(graph_, Read(At(graph_, memory[2], Iota(graph_, arg.m * arg.n)), list), arg.out);
}

UOp* WmmaLowering::OfAWave(const UOp* wmma, absl::Span<UOp* const> operands, std::vector<UOp*>& list) {
  const WmmaArg& arg = wmma->arg_as<WmmaArg>();
  const WmmaLayout layout = *LayoutOf(arg);
  UOp* item = graph_.Make(Op::FLOORMOD, {item_, Idx(graph_, arg.threads)});
  UOp* wave = graph_.Make(Op::FLOORDIV, {item_, Idx(graph_, arg.threads)});
  const auto place = [&](const PlaceRule& rule, int64_t e) {
    return Plus(graph_, DigitOf(graph_, item, arg.threads, rule.item), rule.OfElement(e));
  };
  const int64_t sums = layout.c.elements, waves = items_ / arg.threads;
  UOp* a = Buffer(0, waves * arg.m * arg.k, arg.in, AddrSpace::kLocal);
  UOp* b = Buffer(1, waves * arg.k * arg.n, arg.in, AddrSpace::kLocal);
  UOp* c = Buffer(2, sums, SumDType(arg.out), AddrSpace::kReg);
  UOp* a_base = Times(graph_, wave, arg.m * arg.k);
  UOp* b_base = Times(graph_, wave, arg.k * arg.n);
  const auto write = [&](UOp* memory, UOp* base, const Fragment& fragment, int64_t columns, UOp* value) {
    for (int64_t e = 0; e < fragment.elements; ++e) {
      UOp* inside = Add(graph_, Times(graph_, place(fragment.row, e), columns), place(fragment.column, e));
      UOp* element = graph_.Make(Op::INDEX, {value, Idx(graph_, e)});
      list.push_back(graph_.Make(Op::STORE, {At(graph_, memory, Add(graph_, base, inside)), element}));
    }
  };
  write(a, a_base, layout.a, arg.k, operands[0]);
  write(b, b_base, layout.b, arg.n, operands[1]);
  list.push_back(
      graph_.Make(Op::STORE, {At(graph_, c, Iota(graph_, sums)), Cast(graph_, operands[2], SumDType(arg.out))}));
  UOp* barrier = graph_.Make(Op::BARRIER, {});
  list.push_back(barrier);
  UOp* l = Loop(graph_, arg.k);
  list.push_back(l);
  for (int64_t e = 0; e < sums; ++e) {
    UOp* row = Add(graph_, Times(graph_, place(layout.c.row, e), arg.k), l);
    UOp* column = Add(graph_, Times(graph_, l, arg.n), place(layout.c.column, e));
    UOp* left = Read(At(graph_, a, Add(graph_, a_base, row)), list);
    UOp* right = Read(At(graph_, b, Add(graph_, b_base, column)), list);
    UOp* sum_place = At(graph_, c, Idx(graph_, e));
    UOp* sum = Read(sum_place, list);
    list.push_back(graph_.Make(Op::STORE, {sum_place, MulAdd(graph_, left, right, sum)}));
  }
  list.push_back(Closing(graph_, l));
  list.push_back(barrier);  // before the next WMMA writes there
  return Cast(graph_, Read(At(graph_, c, Iota(graph_, sums)), list), arg.out);
}

}  // namespace kiln::compiler
