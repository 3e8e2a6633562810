#include "compiler/opt/requested.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/opt/checked_schedule.h"

namespace kiln::compiler {
namespace {

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(parts...));
}

// The forms in which OptOps come, each as one row.
struct Form {
  v1::OptOp::Kind wire;
  OptOp::Kind kind;
  size_t least, most;  // numbers in its arg
  const char* wants;
};
constexpr Form kForms[] = {
    {v1::OptOp::SPLIT, OptOp::kSplit, 2, 4, "(factor, target, top?, dimension?)"},
    {v1::OptOp::PADTO, OptOp::kPadTo, 1, 2, "(multiple, clamp?)"},
    {v1::OptOp::SWAP, OptOp::kSwap, 1, 1, "(axis)"},
    {v1::OptOp::FUSE, OptOp::kFuse, 0, 0, "()"},
    {v1::OptOp::LOCAL, OptOp::kLocal, 1, 1, "(operand)"},
    {v1::OptOp::TC, OptOp::kTensor, 2, 3, "(tile, axis of columns)"},
};

// What the parts of an axis are here: loops, but for lanes, and for what GPUs have items of.
AxisType TargetOf(int64_t type, bool items) {
  switch (type) {
    case v1::AXIS_LOCAL: return items ? AxisType::kLocal : AxisType::kLoop;
    case v1::AXIS_THREAD: return AxisType::kLoop;
    case v1::AXIS_GROUP_REDUCE: return items ? AxisType::kGroupReduce : AxisType::kReduce;
    default: return v1::AxisType_IsValid(static_cast<int>(type)) ? static_cast<AxisType>(type) : AxisType::kNone;
  }
}

absl::StatusOr<OptOp> FromRequest(const OptArg& request, bool items) {
  const auto fits = [&](const Form& form) { return form.wire == request.kind; };
  const auto* form = std::find_if(std::begin(kForms), std::end(kForms), fits);
  if (form == std::end(kForms))
    return Bad("no such transform; there are SPLIT, PADTO, SWAP, FUSE, LOCAL, NOLOCALS and TC");
  const std::vector<int64_t>& arg = request.arg;
  if (arg.size() < form->least || arg.size() > form->most) return Bad("it wants ", form->wants);
  constexpr int64_t kMaxAxis = std::numeric_limits<int>::max();
  OptOp opt{form->kind, static_cast<int>(request.axis < 0 ? -1 : std::min(request.axis, kMaxAxis))};
  if (!arg.empty()) opt.amount = arg[0];
  if (form->kind == OptOp::kTensor) {
    opt.dimension = arg[0];
    opt.amount = arg[1];
  }
  if (form->kind == OptOp::kPadTo) opt.clamp = arg.size() > 1 && arg[1] != 0;
  if (form->kind != OptOp::kSplit) return opt;
  if (arg[0] == 0 && arg[1] == v1::AXIS_THREAD) return OptOp{OptOp::kThread, opt.axis};
  opt.target = TargetOf(arg[1], items);
  opt.top = arg.size() > 2 && arg[2] != 0;
  const bool lanes = opt.target == AxisType::kUpcast || opt.target == AxisType::kUnroll;
  opt.dimension = lanes && arg.size() > 3 ? arg[3] : 0;  // loops have none
  return opt;
}

absl::Status Apply(const OptArg& request, CheckedSchedule& schedule) {
  if (request.kind == v1::OptOp::NOLOCALS) return absl::OkStatus();
  if (request.kind == v1::OptOp::TC && !schedule.has_items())
    return MakeError(v1::UNSUPPORTED_OP, "this target has no tensor cores");
  KILN_ASSIGN_OR_RETURN(OptOp opt, FromRequest(request, schedule.has_items()));
  const bool lanes = opt.target == AxisType::kUpcast || opt.target == AxisType::kUnroll;
  const bool any = opt.kind == OptOp::kSplit && lanes && request.arg.size() < 4;
  if (any && opt.axis >= 0 && static_cast<size_t>(opt.axis) < AxesOf(schedule.sink()).size())
    opt.dimension = schedule.FreeDimension(opt.axis);
  return schedule.Apply(opt);
}

}  // namespace

absl::StatusOr<Scheduled> ApplyRequested(Graph& graph, UOp* sink, const std::vector<OptArg>& opts,
                                         const v1::Target& target) {
  if (opts.size() > kMaxOptOps) return Bad(opts.size(), " OptOps; a kernel takes at most ", kMaxOptOps);
  CheckedSchedule schedule(graph, sink, target);
  for (size_t i = 0; i < opts.size(); ++i) {
    const absl::Status applied = Apply(opts[i], schedule);
    if (applied.ok()) continue;
    const auto kind = static_cast<v1::OptOp::Kind>(opts[i].kind);
    const std::string name = v1::OptOp::Kind_IsValid(opts[i].kind) ? v1::OptOp::Kind_Name(kind) : "?";
    return Annotate(applied, absl::StrCat("OptOp ", i, " (", name, " of axis ", opts[i].axis, ")"));
  }
  if (schedule.may_thread()) KILN_RETURN_IF_ERROR(schedule.Apply({OptOp::kThread, 0}));
  return Scheduled{schedule.Finish(), schedule.opts()};
}

}  // namespace kiln::compiler
