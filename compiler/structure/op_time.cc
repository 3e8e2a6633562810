#include "compiler/structure/op_time.h"

#include <algorithm>

#include "compiler/structure/core_product.h"

namespace kiln::compiler {
namespace {

struct Ns {
  double worst = 0, usual = 0;
  bool vectors = true;  // there are vectors of it
};

// Elements of a vector that are one instruction: of the narrowest vectors, and of usual ones.
constexpr double kWorstLanes = 4, kUsualLanes = 8;

// Of one instruction.
constexpr Ns kSimple = {1.5, 0.25};
constexpr Ns kDivision = {15, 3, false};     // of integers
constexpr Ns kRoot = {8, 2};                 // and what is as slow: floats' division
constexpr Ns kTranscendental = {20, 4};      // where it is one instruction to us
constexpr Ns kNear = {4, 0.5};               // memory in an order that the processor foresees
constexpr Ns kWild = {150, 15, false};       // memory at a place that was itself read
constexpr Ns kLocal = {2, 0.25};             // registers and a group's arrays
constexpr Ns kUnknown = {1000, 100, false};  // a client's own code

// Of one instruction of a matrix unit, and of a tile register that it needs filled: lines that lie apart.
constexpr Ns kTileProduct = {60, 8}, kTileLoad = {100, 8};

OpTimes::Ns OfCoreProduct(const CoreProduct& product) {
  const auto down = static_cast<double>(product.down()), across = static_cast<double>(product.across());
  return {kTileProduct.worst * down * across + kTileLoad.worst * (down + across),
          kTileProduct.usual * down * across + kTileLoad.usual * (down + across)};
}

const UOp* StorageOf(const UOp* place) {
  while (!place->src().empty() && place->op() != Op::PARAM && place->op() != Op::BUFFER) place = place->src(0);
  return place;
}

Ns OfAccess(const UOp* place, bool wild) {
  const UOp* storage = StorageOf(place);
  if (storage->op() == Op::BUFFER) return kLocal;
  return wild ? kWild : kNear;
}

Ns OfElement(const UOp* uop) {
  switch (uop->op()) {
    case Op::FLOORDIV:
    case Op::FLOORMOD:
    case Op::CDIV:
    case Op::CMOD: return kDivision;
    case Op::RECIPROCAL:
    case Op::FDIV:
    case Op::SQRT: return kRoot;
    case Op::EXP2:
    case Op::LOG2:
    case Op::SIN:
    case Op::POW:
    case Op::THREEFRY: return kTranscendental;
    case Op::CUSTOM:
    case Op::CUSTOMI: return kUnknown;
    case Op::REDUCE:
    case Op::WMMA:
    case Op::BITCAST: return kSimple;
    default: return IsElementwise(uop->op()) ? kSimple : Ns{};
  }
}

}  // namespace

OpTimes::Ns OpTimes::Next(const UOp* uop) {
  if (const auto product = CoreProductOf(uop)) return OfCoreProduct(*product);
  const bool access = uop->op() == Op::LOAD || uop->op() == Op::STORE || uop->op() == Op::ATOMICADD;
  // The other sources of an AFTER only say what comes before it.
  const absl::Span<UOp* const> values = uop->op() == Op::AFTER ? uop->src().first(1) : uop->src();
  const auto is_loaded = [this](const UOp* source) { return loaded_.contains(source); };
  auto each = OfElement(uop);
  if (access) {
    const UOp* place = uop->src(0);
    each = OfAccess(place, is_loaded(place) || std::any_of(place->src().begin(), place->src().end(), is_loaded));
  }
  if (uop->op() == Op::LOAD || (!access && std::any_of(values.begin(), values.end(), is_loaded))) loaded_.insert(uop);
  const Shape& shape = access || uop->op() == Op::REDUCE ? uop->src(0)->shape() : uop->shape();
  const double elements = IsConst(shape) ? std::max(1.0, static_cast<double>(NumElements(shape))) : 1;
  return {each.worst * std::max(1.0, elements / (each.vectors ? kWorstLanes : 1)),
          each.usual * std::max(1.0, elements / (each.vectors ? kUsualLanes : 1))};
}

}  // namespace kiln::compiler
