#include "compiler/opt/tile_factors.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/float8_value.h"

namespace kiln::compiler {
namespace {

// What makes a factor is walked by recursion, and again for each choice of rows and columns.
constexpr size_t kMaxNodes = 1024;

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(parts...));
}

bool IsZero(const UOp* uop) { return uop->op() == Op::CONST && uop->arg_as<ConstArg>() == ConstArg{uop->dtype(), 0}; }

// What is 0 where a gate is not true, and the gates on the way to it.
UOp* BehindGates(UOp* uop, std::vector<UOp*>& gates) {
  while (uop->op() == Op::WHERE && IsZero(uop->src(2))) {
    gates.push_back(uop->src(0));
    uop = uop->src(1);
  }
  return uop;
}

absl::StatusOr<Factor> FactorOf(UOp* uop) {
  const std::vector<UOp*> nodes = Toposort(uop);
  if (nodes.size() > kMaxNodes)
    return Bad("a factor is made of ", nodes.size(), " nodes; of one of a tile there are at most ", kMaxNodes);
  Factor factor;
  factor.number = uop;
  for (UOp* node : nodes) {
    if (node->op() == Op::RANGE) factor.loops.push_back(node);
  }
  std::vector<UOp*> gates;
  UOp* wide = BehindGates(uop, gates);
  UOp* load = wide->op() == Op::CAST ? BehindGates(wide->src(0), gates) : wide;
  factor.dtype = load->dtype();
  if (load->op() != Op::LOAD) {
    const std::optional<Float8Value> value = Float8ValueOf(uop);
    if (value.has_value()) {
      gates.clear();
      load = value->load;
      factor.dtype = value->format;
    }
  }
  const bool plain =
      load->op() == Op::LOAD && load->src(0)->op() == Op::INDEX && load->src(0)->src(0)->op() == Op::PARAM;
  if (!plain || load->src().size() == 2 || (load->src().size() == 3 && !IsZero(load->src(1))) ||
      uop->dtype() != SumOf(factor.dtype))
    return Bad("the factors are LOADs that are 0 behind their gates, or CASTs of those to what they are added up in");
  if (load->src().size() == 3) gates.push_back(load->src(2));
  auto conditions = ConditionsOf(std::move(gates));
  if (!conditions.has_value()) return Bad("a factor's gate is more than that numbers are within bounds");
  factor.conditions = *std::move(conditions);
  factor.load = load;
  UOp* index = load->src(0)->src(1);
  factor.place = ToLinear(index);
  // Nobody proves or gates the tile's accesses later: all are the loops', and of these all must be inside.
  const Bounds& places = index->bounds();
  const int64_t size = factor.Storage()->shape()[0].min();
  if ((places.min < 0 || places.max >= size) && !StaysInside(factor.place, factor.conditions, size))
    return Bad("a factor's place may be outside of its storage");
  return factor;
}

// Of the product whose rows and columns are these, and what is reduced in this order.
absl::StatusOr<Sides> SidesInOrder(const Factors& factors, Loops rows, Loops columns, Loops reduced) {
  Sides sides;
  for (const Factor& factor : factors.of) {
    const bool along_rows = DependsOn(factor, rows);
    Side& side = sides[along_rows ? 0 : 1];
    if (along_rows == DependsOn(factor, columns) || side.factor != nullptr)
      return Bad("one factor moves along the rows, and one along the columns");
    side.factor = &factor;
    const Loops mine = along_rows ? rows : columns;
    auto place = MovesOf(factor.place, mine, reduced);
    if (!place.has_value()) return Bad("a factor's place is no sum of multiples of row, column and what is reduced");
    side.place = *std::move(place);
    for (const Condition& condition : factor.conditions) {
      auto moves = MovesOf(condition.number, mine, reduced);
      if (!moves.has_value()) return Bad("a factor's gate is of more than row, column and what is reduced");
      side.conditions.push_back(*std::move(moves));
    }
  }
  return sides;
}

// Of what it takes to copy a side: less, if neighbours along k come at once.
double CostOf(const Side& side) {
  int64_t together = side.place.step == 1 ? 8 : 1;
  if (side.place.step_k == 1) {
    int64_t divisor = std::gcd(int64_t{8}, side.place.step);
    const auto also = [&](const FactorMoves& moves) {
      for (const Jump& jump : moves.jumps) {
        if (jump.reduced) divisor = std::gcd(divisor, jump.every);
      }
    };
    also(side.place);
    for (const FactorMoves& moves : side.conditions) also(moves);
    together = std::max(together, divisor);
  }
  return static_cast<double>(1 + side.place.jumps.size() + side.conditions.size()) / static_cast<double>(together);
}

}  // namespace

int64_t IterationsOf(Loops loops) {
  int64_t iterations = 1;
  for (const UOp* loop : loops) {
    const int64_t size = loop->src(0)->const_int();
    iterations = size > kMaxTileAxis / iterations ? kMaxTileAxis + 1 : iterations * size;
  }
  return iterations;
}

absl::StatusOr<Factors> FactorsOf(UOp* sink) {
  if (sink->src().size() != 1 || sink->src(0)->op() != Op::END || sink->src(0)->src(0)->op() != Op::STORE)
    return Bad("a tile is stored by one STORE in loops");
  Factors factors;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::BUFFER || uop->op() == Op::WMMA) return Bad("a kernel with memory of its own takes no tiles");
    if (uop->op() != Op::REDUCE) continue;
    if (factors.reduce != nullptr) return Bad("a kernel of several REDUCEs takes no tiles");
    factors.reduce = uop;
  }
  UOp* reduce = factors.reduce;
  if (reduce == nullptr || reduce->arg_as<ReduceArg>().op != Op::ADD || reduce->src().size() < 2 ||
      reduce->src(0)->op() != Op::MUL)
    return Bad("tiles are of a REDUCE that adds up products along axes");
  std::vector<UOp*> loops = OutputRanges(sink);
  loops.insert(loops.end(), factors.ReducedLoops().begin(), factors.ReducedLoops().end());
  for (const UOp* loop : loops) {
    const AxisType type = loop->arg_as<RangeArg>().type;
    if (!loop->src(0)->IsConst()) return Bad("an axis whose size is not a number, but known when the kernel runs");
    if (type == AxisType::kLocal || type == AxisType::kUpcast || type == AxisType::kUnroll ||
        type == AxisType::kGroupReduce)
      return Bad("items and lanes are what the tile says: no other axis may be such");
  }
  factors.reduced = IterationsOf(factors.ReducedLoops());
  if (factors.reduced > kMaxTileAxis) return Bad("too much is reduced: more than ", kMaxTileAxis, " products");
  for (size_t i : {size_t{0}, size_t{1}}) {
    KILN_ASSIGN_OR_RETURN(factors.of[i], FactorOf(reduce->src(0)->src(i)));
    if (factors.of[i].Storage() == sink->src(0)->src(0)->src(0)->src(0)) return Bad("the kernel writes what it reads");
  }
  if (factors.of[0].dtype != factors.of[1].dtype) return Bad("the factors are of two dtypes");
  return factors;
}

bool DependsOn(const Factor& factor, Loops loops) {
  return std::any_of(loops.begin(), loops.end(), [&](UOp* loop) {
    return std::find(factor.loops.begin(), factor.loops.end(), loop) != factor.loops.end();
  });
}

absl::StatusOr<Sides> SidesOf(const Factors& factors, Loops rows, Loops columns) {
  // Ordinary arithmetic adds float32 numbers up as they are nested.
  const Loops reduced = factors.ReducedLoops();
  const size_t others = factors.in() == DType::kFloat32 ? 0 : reduced.size() - 1;
  absl::StatusOr<Sides> best = SidesInOrder(factors, rows, columns, reduced);
  const auto cost = [](const Sides& sides) { return CostOf(sides[0]) + CostOf(sides[1]); };
  for (size_t i = 0; i < others && best.ok(); ++i) {
    std::vector<UOp*> order(reduced.begin(), reduced.end());
    std::rotate(order.begin() + static_cast<int64_t>(i), order.begin() + static_cast<int64_t>(i) + 1, order.end());
    absl::StatusOr<Sides> sides = SidesInOrder(factors, rows, columns, order);
    if (sides.ok() && cost(*sides) < cost(*best)) best = std::move(sides);
  }
  return best;
}

}  // namespace kiln::compiler
