#include "compiler/opt/schedule_text.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text_scanner.h"
#include "compiler/ir/group_product.h"

namespace kiln::compiler {
namespace {

// What stands in the brackets behind the axis.
enum Part { kAmount = 1, kTarget = 2, kTop = 4, kDimension = 8, kClamp = 16, kTile = 32 };

// A kind of OptOp is one row.
struct Row {
  OptOp::Kind kind;
  const char* name;
  int parts;
  v1::OptOp::Kind wire;
};
constexpr Row kRows[] = {
    {OptOp::kSplit, "SPLIT", kAmount | kTarget | kTop | kDimension, v1::OptOp::SPLIT},
    {OptOp::kPadTo, "PADTO", kAmount | kClamp, v1::OptOp::PADTO},
    {OptOp::kSwap, "SWAP", kAmount, v1::OptOp::SWAP},
    {OptOp::kFuse, "FUSE", 0, v1::OptOp::FUSE},
    {OptOp::kLocal, "LOCAL", kAmount, v1::OptOp::LOCAL},
    {OptOp::kThread, "THREAD", 0, v1::OptOp::SPLIT},
    {OptOp::kTensor, "TC", kAmount | kTile, v1::OptOp::TC},
};

struct Target {
  AxisType type;
  const char* name;
};
constexpr Target kTargets[] = {
    {AxisType::kLoop, "LOOP"},
    {AxisType::kReduce, "REDUCE"},
    {AxisType::kUpcast, "UPCAST"},
    {AxisType::kUnroll, "UNROLL"},
    {AxisType::kGroupReduce, "GROUP_REDUCE"},
    {AxisType::kGlobal, "GLOBAL"},
    {AxisType::kLocal, "LOCAL"},
};

const Row& RowOf(OptOp::Kind kind) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [kind](const Row& r) { return r.kind == kind; });
  KILN_CHECK(row != std::end(kRows));
  return *row;
}

const char* NameOf(AxisType type) {
  for (const Target& target : kTargets) {
    if (target.type == type) return target.name;
  }
  return "?";
}

template <typename Rows>
std::string Names(const Rows& rows) {
  return absl::StrJoin(rows, ", ", [](std::string* out, const auto& row) { out->append(row.name); });
}

// The row that the next word names.
template <typename Rows>
const auto* TakeName(TextScanner& in, const Rows& rows) {
  for (const auto& row : rows) {
    if (in.Take(row.name)) return &row;
  }
  in.Fail(absl::StrCat("one of ", Names(rows)));
  return std::begin(rows);
}

int64_t TakeTile(TextScanner& in) {
  const auto& tiles = MatrixTiles();
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (in.Take(tiles[i].name)) return static_cast<int64_t>(i);
  }
  in.Fail(absl::StrCat("one of ", Names(tiles)));
  return 0;
}

OptOp ParseOpt(TextScanner& in) {
  const Row& row = *TakeName(in, kRows);
  in.Expect("(");
  OptOp opt{row.kind, static_cast<int>(in.Unsigned32("an axis") & 0x7fff'ffff)};
  if (row.parts & kAmount) {
    in.Expect(",");
    opt.amount = in.Signed("a number");
  }
  if (row.parts & kTarget) {
    in.Expect(",");
    opt.target = TakeName(in, kTargets)->type;
  }
  if (row.parts & kTile) {
    in.Expect(",");
    opt.dimension = TakeTile(in);
  }
  while (in.ok() && in.Take(",")) {
    if ((row.parts & kTop) && in.Take("top")) {
      opt.top = true;
    } else if ((row.parts & kDimension) && in.Take("dim")) {
      opt.dimension = in.Unsigned32("a lane dimension");
    } else if ((row.parts & kClamp) && in.Take("clamp")) {
      opt.clamp = true;
    } else {
      in.Fail((row.parts & kTop) ? "top or dim" : (row.parts & kClamp) ? "clamp" : ")");
    }
  }
  in.Expect(")");
  return opt;
}

}  // namespace

std::string ToString(const OptOp& opt) {
  const Row& row = RowOf(opt.kind);
  std::string text = absl::StrCat(row.name, "(", opt.axis);
  if (row.parts & kAmount) absl::StrAppend(&text, ", ", opt.amount);
  if (row.parts & kTarget) absl::StrAppend(&text, ", ", NameOf(opt.target));
  if (row.parts & kTile) absl::StrAppend(&text, ", ", MatrixTiles().at(static_cast<size_t>(opt.dimension)).name);
  if ((row.parts & kTop) && opt.top) absl::StrAppend(&text, ", top");
  if ((row.parts & kDimension) && opt.dimension != 0) absl::StrAppend(&text, ", dim ", opt.dimension);
  if ((row.parts & kClamp) && opt.clamp) absl::StrAppend(&text, ", clamp");
  return absl::StrCat(text, ")");
}

std::string ToString(absl::Span<const OptOp> opts) {
  return absl::StrJoin(opts, "; ", [](std::string* out, const OptOp& opt) { out->append(ToString(opt)); });
}

absl::StatusOr<std::vector<OptOp>> ParseSchedule(absl::string_view text) {
  TextScanner in(text);
  std::vector<OptOp> opts;
  while (in.ok() && !in.AtEnd()) {
    if (!opts.empty()) in.Expect(";");
    opts.push_back(ParseOpt(in));
  }
  if (!in.ok()) return MakeError(v1::BAD_ARGUMENT, absl::StrCat("a schedule, ", in.error()));
  return opts;
}

OptArg ToRequest(const OptOp& opt) {
  const Row& row = RowOf(opt.kind);
  OptArg request{row.wire, opt.axis, {}};
  if (opt.kind == OptOp::kThread) {
    request.arg = {0, v1::AXIS_THREAD};
    return request;
  }
  if (opt.kind == OptOp::kTensor) {
    request.arg = {opt.dimension, opt.amount};
    return request;
  }
  if (row.parts & kAmount) request.arg.push_back(opt.amount);
  if (row.parts & kTarget) request.arg.push_back(static_cast<int64_t>(opt.target));
  if (row.parts & kTop) request.arg.push_back(opt.top);
  if (row.parts & kDimension) request.arg.push_back(opt.dimension);
  if (row.parts & kClamp) request.arg.push_back(opt.clamp);
  return request;
}

}  // namespace kiln::compiler
