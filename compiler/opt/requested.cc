#include "compiler/opt/requested.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/opt/checked_schedule.h"
#include "compiler/opt/opt_ops.h"

namespace kiln::compiler {
namespace {

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(parts...));
}

// What the parts of an axis are here: loops, but for lanes, and for what GPUs have items of.
AxisType TargetOf(int64_t type, bool items) {
  switch (type) {
    case v1::AXIS_LOCAL: return items ? AxisType::kLocal : AxisType::kLoop;
    case v1::AXIS_THREAD: return AxisType::kLoop;
    case v1::AXIS_GROUP_REDUCE: return items ? AxisType::kGroupReduce : AxisType::kReduce;
    default: return v1::AxisType_IsValid(static_cast<int>(type)) ? static_cast<AxisType>(type) : AxisType::kNone;
  }
}

bool IsLanes(const OptOp& split) { return split.target == AxisType::kUpcast || split.target == AxisType::kUnroll; }

absl::StatusOr<OptOp> FromRequest(const OptArg& request, bool items) {
  const OptOpRow* row = FindRow(request.kind);
  if (row == nullptr) return Bad("no such transform; there are ", WireNames());
  const std::vector<int64_t>& arg = request.arg;
  const absl::Span<const OptArgument> arguments = row->arguments();
  if (arg.size() < row->least() || arg.size() > arguments.size()) return Bad("it wants ", row->Wanted());
  constexpr int64_t kMaxAxis = std::numeric_limits<int>::max();
  OptOp opt{row->kind, static_cast<int>(request.axis < 0 ? -1 : std::min(request.axis, kMaxAxis))};
  if (opt.kind == OptOp::kSplit && arg[0] == 0 && arg[1] == v1::AXIS_THREAD) return OptOp{OptOp::kThread, opt.axis};
  for (size_t i = 0; i < arg.size(); ++i) {
    switch (arguments[i].form) {
      case kNumber: opt.amount = arg[i]; break;
      case kAxisType: opt.target = TargetOf(arg[i], items); break;
      case kTop: opt.top = arg[i] != 0; break;
      case kClamp: opt.clamp = arg[i] != 0; break;
      case kTile:
      case kDimension: opt.dimension = arg[i]; break;
      case kIgnored:
      case kNone: break;
    }
  }
  if (opt.kind == OptOp::kSplit && !IsLanes(opt)) opt.dimension = 0;  // loops have none
  return opt;
}

absl::Status Apply(const OptArg& request, CheckedSchedule& schedule) {
  if (request.kind == v1::OptOp::NOLOCALS) return absl::OkStatus();
  if (request.kind == v1::OptOp::TC && !schedule.has_items())
    return MakeError(v1::UNSUPPORTED_OP, "this target has no tensor cores");
  KILN_ASSIGN_OR_RETURN(OptOp opt, FromRequest(request, schedule.has_items()));
  const bool any = opt.kind == OptOp::kSplit && IsLanes(opt) && request.arg.size() < 4;
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
