#include "compiler/schedule/index_lowering.h"

#include <algorithm>

#include "base/check.h"
#include "compiler/ir/build.h"
#include "compiler/ir/polynomial.h"
#include "compiler/rules/collapse_reduce.h"
#include "compiler/schedule/callify.h"

namespace kiln::compiler {

UOp* IndexLowering::Lower(UOp* value, const Indices& indices) {
  const Request first{value, indices, nullptr, 0};
  std::vector<Frame> stack;
  stack.push_back({first, {}, {}});
  while (true) {
    Frame& frame = stack.back();
    Request next;
    if (NextRequest(frame, next)) {
      if (auto found = done_.find(next); found != done_.end()) {
        frame.got.push_back(found->second);
      } else {
        stack.push_back({std::move(next), {}, {}});
      }
      continue;
    }
    UOp* result = Finish(frame);
    done_.emplace(frame.request, result);
    stack.pop_back();
    if (stack.empty()) return result;
    stack.back().got.push_back(result);
  }
}

bool IndexLowering::NextRequest(Frame& frame, Request& next) {
  const UOp* uop = frame.request.uop;
  if (HomeOf(frame.request) != nullptr) return false;
  if (IsElementwise(uop->op())) return NextElementwise(frame, next);
  switch (uop->op()) {
    case Op::PERMUTE:
    case Op::FLIP:
    case Op::RESHAPE:
    case Op::EXPAND:
    case Op::SHRINK:
    case Op::PAD: return NextMovement(frame, next);
    case Op::INDEX: return NextIndex(frame, next);
    case Op::STACK: return NextStack(frame, next);
    case Op::BITCAST: return NextBitcast(frame, next);
    case Op::REDUCE: return NextReduce(frame, next);
    case Op::LOAD: return NextElementwise(frame, next);
    case Op::AFTER:
      if (!frame.got.empty()) return false;
      // Only storage changes with time; a computed value is what it is.
      next = {uop->src(0), frame.request.indices, frame.request.gate,
              std::max(frame.request.state, stores_.StateOf(uop))};
      return true;
    case Op::GETTUPLE:
      if (!frame.got.empty()) return false;
      next = {uop->src(0)->src(uop->arg_as<int64_t>()), frame.request.indices, frame.request.gate, frame.request.state};
      return true;
    default: return false;
  }
}

UOp* IndexLowering::Finish(Frame& frame) {
  UOp* uop = frame.request.uop;
  if (UOp* home = HomeOf(frame.request)) {
    homes_read_.insert(uop);
    return LoadFrom(home, InMemoryOrder(layouts_, uop, uop->shape()),
                    InMemoryOrder(layouts_, uop, frame.request.indices), frame.request.gate);
  }
  if (IsElementwise(uop->op())) return FinishElementwise(frame);
  switch (uop->op()) {
    case Op::PARAM:
    case Op::BUFFER: {
      if (uop->IsVariable()) return uop;
      const StateRead read{uop, frame.request.state};
      if (std::find(reads_.begin(), reads_.end(), read) == reads_.end()) reads_.push_back(read);
      return LoadFrom(uop, uop->shape(), frame.request.indices, frame.request.gate);
    }
    case Op::BINARY: return LoadFrom(uop, uop->shape(), frame.request.indices, frame.request.gate);
    case Op::CONST: KILN_CHECK(!uop->IsInvalid()); return uop;
    case Op::PAD: return FinishPad(frame);
    case Op::INDEX: return FinishIndex(frame);
    case Op::STACK: return FinishStack(frame);
    case Op::BITCAST: return FinishBitcast(frame);
    case Op::REDUCE: return FinishReduce(frame);
    case Op::LOAD:
      if (frame.got.size() < 3) return frame.got[0];
      // LOAD(x, alt, gate): the alternative where the gate is false.
      return S(Where(graph_, frame.got[2], frame.got[0], frame.got[1]));
    default:
      KILN_CHECK(frame.got.size() == 1);  // movement, AFTER, GETTUPLE: their source at other indices
      return frame.got[0];
  }
}

// -- Elementwise ops

bool IndexLowering::NextElementwise(Frame& frame, Request& next) {
  const UOp* uop = frame.request.uop;
  const size_t k = frame.got.size();
  if (k == uop->src().size()) return false;
  UOp* source = uop->src(k);
  // Right-aligned; what is broadcast is read at 0.
  const Indices& indices = frame.request.indices;
  const Shape& shape = source->shape();
  const size_t lead = indices.size() - shape.size();
  Indices mine;
  for (size_t i = 0; i < shape.size(); ++i) {
    mine.push_back(shape[i] == 1 && uop->shape()[lead + i] != 1 ? Idx(graph_, 0) : indices[lead + i]);
  }
  next = {source, mine, frame.request.gate, frame.request.state};
  return true;
}

UOp* IndexLowering::FinishElementwise(Frame& frame) {
  UOp* uop = frame.request.uop;
  return S(graph_.Make(uop->op(), frame.got, uop->arg()));
}

// -- Reductions

bool IndexLowering::NextReduce(Frame& frame, Request& next) {
  if (!frame.got.empty()) return false;
  const UOp* uop = frame.request.uop;
  const UOp* source = uop->src(0);
  Indices indices = frame.request.indices;
  std::vector<bool> reduced(indices.size(), false);
  for (int64_t axis : uop->arg_as<ReduceArg>().axes) reduced[axis] = true;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (!reduced[axis]) continue;
    const Dim& size = source->shape()[axis];
    if (size == 1) {
      indices[axis] = Idx(graph_, 0);
      continue;
    }
    indices[axis] = graph_.Make(Op::RANGE, {IndexOf(graph_, size)}, RangeArg{graph_.NextId(), AxisType::kReduce});
    frame.ranges.push_back(indices[axis]);
  }
  if (MaxElements(source->shape()) == 0 && MaxElements(uop->shape()) != 0) return false;  // only the identity is left
  next = {uop->src(0), indices, frame.request.gate, frame.request.state};
  return true;
}

UOp* IndexLowering::FinishReduce(Frame& frame) {
  UOp* uop = frame.request.uop;
  const Op reduce_op = uop->arg_as<ReduceArg>().op;
  if (frame.got.empty()) return Identity(graph_, reduce_op, uop->dtype());
  // Narrow floats are accumulated in float32 and rounded once.
  const DType dtype = IsNarrowFloat(uop->dtype()) ? DType::kFloat32 : uop->dtype();
  UOp* value = S(Cast(graph_, frame.got[0], dtype));
  if (frame.ranges.empty()) return S(Cast(graph_, value, uop->dtype()));
  return S(Cast(graph_, CollapseReduce(graph_, simplify_, reduce_op, value, frame.ranges), uop->dtype()));
}

// -- Memory

UOp* IndexLowering::Flatten(const Shape& shape, const Indices& indices) {
  UOp* flat = Idx(graph_, 0);
  Dim stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    flat = Add(graph_, Times(indices[i], stride), flat);
    if (shape[i] != 0) stride = ElementsOf(graph_, {stride, shape[i]});
  }
  return IsConst(shape) ? S(flat) : S(FromPolynomial(graph_, PolynomialOf(graph_, flat)));
}

UOp* IndexLowering::HomeOf(const Request& request) const {
  // A home of a movement chain holds what the chain itself shows, not what it
  // shows behind an AFTER above it.
  if (request.uop == root_ || request.state > 0) return nullptr;
  const auto home = homes_.find(request.uop);
  return home == homes_.end() ? nullptr : home->second;
}

UOp* IndexLowering::LoadFrom(UOp* storage, const Shape& shape, const Indices& indices, UOp* gate) {
  UOp* flat = Flatten(shape, indices);
  const Shape line = {ElementsOf(graph_, shape)};
  UOp* index = graph_.Make(Op::INDEX, {Reshape(graph_, storage, line), flat});
  // Movement ops keep indices in range wherever the gate is true, so a gate is
  // needed only where they may leave it otherwise.
  if (gate == nullptr || (flat->bounds().min >= 0 && IsBelow(flat, line[0]))) return graph_.Make(Op::LOAD, {index});
  UOp* zero = ConstNumber(graph_, storage->dtype(), 0);
  return S(graph_.Make(Op::LOAD, {index, zero, gate}));
}

}  // namespace kiln::compiler
