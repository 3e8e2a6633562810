#include "compiler/opt/requested.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/apply.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kMostLanes = 256;
constexpr int64_t kMostPadding = 4096;

class Request {
 public:
  Request(Graph& graph, UOp* sink) : graph_(graph), sink_(sink) {}

  absl::StatusOr<UOp*> Run(const std::vector<OptArg>& opts) {
    for (size_t i = 0; i < opts.size(); ++i) {
      number_ = i;
      KILN_RETURN_IF_ERROR(Apply(opts[i]));
    }
    std::vector<OptOp> last;
    if (!OutputLoops().empty()) last.push_back({OptOp::kThread, 0});
    return ApplyOpts(graph_, sink_, last);
  }

 private:
  template <typename... Parts>
  absl::Status Bad(const OptArg& opt, const Parts&... parts) const {
    const v1::OptOp::Kind kind = static_cast<v1::OptOp::Kind>(opt.kind);
    return MakeError(
        v1::BAD_ARGUMENT,
        absl::StrCat("OptOp ", number_, " (", v1::OptOp::Kind_IsValid(opt.kind) ? v1::OptOp::Kind_Name(kind) : "?",
                     " of axis ", opt.axis, "): ", parts...));
  }

  std::vector<UOp*> OutputLoops() const {
    const std::vector<UOp*> axes = AxesOf(sink_);
    const std::vector<UOp*> output = OutputRanges(sink_);
    std::vector<UOp*> loops;
    for (UOp* axis : axes) {
      if (std::find(output.begin(), output.end(), axis) != output.end()) loops.push_back(axis);
    }
    return loops;
  }

  absl::Status Apply(const OptArg& opt) {
    if (opt.kind == v1::OptOp::NOLOCALS) return absl::OkStatus();
    if (opt.kind == v1::OptOp::TC)
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("OptOp ", number_, " (TC): this target has no tensor cores"));
    const auto axes = static_cast<int64_t>(AxesOf(sink_).size());
    if (opt.axis < 0 || opt.axis >= axes) return Bad(opt, "the kernel has axes 0 to ", axes - 1);
    switch (opt.kind) {
      case v1::OptOp::SPLIT: return Split(opt);
      case v1::OptOp::PADTO: return PadTo(opt);
      case v1::OptOp::SWAP: return Swap(opt, axes);
      default: return Bad(opt, "no such transform; there are SPLIT, PADTO, SWAP, NOLOCALS and TC");
    }
  }

  absl::Status Split(const OptArg& opt) {
    if (opt.arg.size() < 2 || opt.arg.size() > 3) return Bad(opt, "it wants (factor, target, top?)");
    const int64_t size = AxesOf(sink_)[static_cast<size_t>(opt.axis)]->src(0)->const_int();
    const int64_t factor = opt.arg[0];
    if (factor < 1 || size % factor != 0)
      return Bad(opt, "a factor of ", factor, "; it must be a divisor of the axis's ", size);
    const bool reduced = opt.axis >= static_cast<int64_t>(OutputLoops().size());
    OptOp split{OptOp::kSplit, static_cast<int>(opt.axis), factor};
    split.top = opt.arg.size() == 3 && opt.arg[2] != 0;
    bool fits = false;
    switch (opt.arg[1]) {
      case v1::AXIS_UPCAST: fits = !reduced; break;
      case v1::AXIS_UNROLL: fits = reduced; break;
      case v1::AXIS_LOCAL:
      case v1::AXIS_THREAD: fits = !reduced; break;
      case v1::AXIS_GROUP_REDUCE: fits = reduced; break;
      default: break;
    }
    if (!fits) {
      return Bad(
          opt, "a target AxisType of ", opt.arg[1], "; ",
          reduced ? "a reduced axis takes UNROLL or GROUP_REDUCE" : "an output axis takes UPCAST, LOCAL or THREAD");
    }
    const bool lanes = opt.arg[1] == v1::AXIS_UPCAST || opt.arg[1] == v1::AXIS_UNROLL;
    if (lanes) {
      lanes_ *= factor;
      if (factor > kMostLanes || lanes_ > kMostLanes) return Bad(opt, "more than ", kMostLanes, " lanes together");
      split.target = static_cast<AxisType>(opt.arg[1]);
      split.dimension = factor > 1 ? dimension_++ : 0;
    } else {
      split.target = reduced ? AxisType::kReduce : AxisType::kLoop;
    }
    // A part of one turn is none.
    if (factor > 1) sink_ = ApplyOpt(graph_, sink_, split);
    return absl::OkStatus();
  }

  absl::Status PadTo(const OptArg& opt) {
    if (opt.arg.size() != 1 || opt.arg[0] < 1 || opt.arg[0] > kMostPadding)
      return Bad(opt, "it wants (multiple), from 1 to ", kMostPadding);
    sink_ = ApplyOpt(graph_, sink_, {OptOp::kPadTo, static_cast<int>(opt.axis), opt.arg[0]});
    return absl::OkStatus();
  }

  absl::Status Swap(const OptArg& opt, int64_t axes) {
    if (opt.arg.size() != 1 || opt.arg[0] < 0 || opt.arg[0] >= axes)
      return Bad(opt, "it wants (axis), from 0 to ", axes - 1);
    const std::vector<UOp*> all = AxesOf(sink_);
    UOp* a = all[static_cast<size_t>(opt.axis)];
    UOp* b = all[static_cast<size_t>(opt.arg[0])];
    const std::vector<UOp*> order = Toposort(sink_);
    const bool together = std::any_of(order.begin(), order.end(), [&](const UOp* uop) {
      if (uop->op() != Op::END && uop->op() != Op::REDUCE) return false;
      const auto loops = uop->src().subspan(1);
      return std::find(loops.begin(), loops.end(), a) != loops.end() &&
             std::find(loops.begin(), loops.end(), b) != loops.end();
    });
    if (!together)
      return Bad(opt, "axis ", opt.arg[0], " is of another nest; two axes of the output or of one REDUCE swap");
    sink_ = ApplyOpt(graph_, sink_, {OptOp::kSwap, static_cast<int>(opt.axis), opt.arg[0]});
    return absl::OkStatus();
  }

  Graph& graph_;
  UOp* sink_;
  size_t number_ = 0;
  int64_t lanes_ = 1;
  int64_t dimension_ = 0;
};

}  // namespace

absl::StatusOr<UOp*> ApplyRequested(Graph& graph, UOp* sink, const std::vector<OptArg>& opts) {
  return Request(graph, sink).Run(opts);
}

}  // namespace kiln::compiler
