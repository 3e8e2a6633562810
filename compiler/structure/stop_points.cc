#include "compiler/structure/stop_points.h"

#include <algorithm>
#include <vector>

#include "compiler/structure/op_time.h"

namespace kiln::compiler {
namespace {

constexpr double kMaxNs = 2'000'000;  // between two looks
// Looking costs a nanosecond or two: an iteration of which there would be so few between two looks
// is long enough to look in each.
constexpr int64_t kFew = 16;

double Times(const UOp* range) { return std::max(0.0, static_cast<double>(range->src(0)->bounds().max)); }

// What a listing takes; of a RANGE, one iteration.
std::vector<double> TakenBy(absl::Span<UOp* const> list) {
  std::vector<double> taken(list.size(), 0.0);
  std::vector<size_t> open;
  OpTimes times;
  for (size_t i = 0; i < list.size(); ++i) {
    const UOp* uop = list[i];
    double ns = times.Next(uop).worst;
    if (uop->op() == Op::RANGE || uop->op() == Op::IF) {
      open.push_back(i);
      continue;
    }
    if (uop->op() == Op::ENDIF || uop->op() == Op::END) {
      // An END may close several loops.
      for (size_t k = uop->op() == Op::END ? uop->src().size() - 1 : 1; k-- > 0;) {
        const size_t opener = open.back();
        open.pop_back();
        ns = taken[opener] * (list[opener]->op() == Op::RANGE ? Times(list[opener]) : 1);
        if (!open.empty()) taken[open.back()] += ns;
      }
      continue;
    }
    if (!open.empty()) taken[open.back()] += ns;
    taken[i] = ns;
  }
  return taken;
}

}  // namespace

StopPoints FindStopPoints(const UOp* linear) {
  const absl::Span<UOp* const> list = linear->src();
  const std::vector<double> taken = TakenBy(list);
  StopPoints points;
  double since = 0;   // the last look
  size_t closed = 0;  // loops around, up to the outermost that counts as a whole
  const auto look = [&points](const UOp* range, int64_t every) {
    // A node may be listed twice, around different instructions.
    const auto [found, is_new] = points.emplace(range, every);
    if (!is_new) found->second = std::min(found->second, every);
  };
  for (size_t i = 0; i < list.size(); ++i) {
    const UOp* uop = list[i];
    if (uop->op() == Op::END && closed > 0) {
      closed -= std::min(closed, uop->src().size() - 1);
      continue;
    }
    if (uop->op() != Op::RANGE) {
      if (closed == 0 && uop->op() != Op::IF) since += taken[i];
      continue;
    }
    if (closed > 0) {
      ++closed;
      continue;
    }
    const double each = std::max(taken[i], 1.0), whole = each * Times(uop);
    if (since + whole <= kMaxNs) {
      since += whole;
      closed = 1;
    } else if (each <= kMaxNs / 2) {
      // The last look may lie as far back before the first of these as there is between two of these.
      const auto every = static_cast<int64_t>(kMaxNs / 2 / each);
      look(uop, every <= kFew ? 1 : every);
      since = kMaxNs / 2;
      closed = 1;
    } else {
      look(uop, 1);
    }
  }
  return points;
}

}  // namespace kiln::compiler
