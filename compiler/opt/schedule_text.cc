#include "compiler/opt/schedule_text.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/graph/text_scanner.h"
#include "compiler/opt/opt_ops.h"
#include "compiler/structure/group_product.h"

namespace kiln::compiler {
namespace {

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

// In text numbers come first, then names, and what may be left out is last.
int PlaceOf(OptForm form) { return form == kNumber ? 0 : form < kTop ? 1 : 2; }

// The word for what may be left out; null for what may not.
const char* KeywordOf(OptForm form) {
  switch (form) {
    case kTop: return "top";
    case kDimension: return "dim";
    case kClamp: return "clamp";
    case kNone:
    case kNumber:
    case kAxisType:
    case kTile:
    case kIgnored: return nullptr;
  }
  return nullptr;
}

void Parse(TextScanner& in, OptForm form, OptOp& opt) {
  switch (form) {
    case kNumber: opt.amount = in.Signed("a number"); return;
    case kAxisType: opt.target = TakeName(in, kTargets)->type; return;
    case kTile: opt.dimension = TakeTile(in); return;
    case kTop: opt.top = true; return;
    case kDimension: opt.dimension = in.Unsigned32("a lane dimension"); return;
    case kClamp: opt.clamp = true; return;
    case kNone:
    case kIgnored: return;
  }
}

void ParseOptional(TextScanner& in, const OptOpRow& row, OptOp& opt) {
  std::string words;
  for (const OptArgument& each : row.arguments()) {
    const char* word = KeywordOf(each.form);
    if (word == nullptr) continue;
    if (in.Take(word)) return Parse(in, each.form, opt);
    absl::StrAppend(&words, words.empty() ? "" : " or ", word);
  }
  in.Fail(words.empty() ? ")" : words);
}

OptOp ParseOpt(TextScanner& in) {
  const OptOpRow& row = *TakeName(in, kOptOps);
  in.Expect("(");
  OptOp opt{row.kind, static_cast<int>(in.Unsigned32("an axis") & 0x7fff'ffff)};
  for (int place = 0; place < 2; ++place) {
    for (const OptArgument& each : row.arguments()) {
      if (PlaceOf(each.form) != place) continue;
      in.Expect(",");
      Parse(in, each.form, opt);
    }
  }
  while (in.ok() && in.Take(",")) ParseOptional(in, row, opt);
  in.Expect(")");
  return opt;
}

void Print(std::string& text, OptForm form, const OptOp& opt) {
  switch (form) {
    case kNumber: return absl::StrAppend(&text, ", ", opt.amount);
    case kAxisType: return absl::StrAppend(&text, ", ", NameOf(opt.target));
    case kTile: return absl::StrAppend(&text, ", ", MatrixTiles().at(static_cast<size_t>(opt.tile())).name);
    case kTop: text.append(opt.top ? ", top" : ""); return;
    case kDimension:
      if (opt.dimension != 0) absl::StrAppend(&text, ", dim ", opt.dimension);
      return;
    case kClamp: text.append(opt.clamp ? ", clamp" : ""); return;
    case kNone:
    case kIgnored: return;
  }
}

}  // namespace

std::string ToString(const OptOp& opt) {
  const OptOpRow& row = RowOf(opt.kind);
  std::string text = absl::StrCat(row.name, "(", opt.axis);
  for (int place = 0; place < 3; ++place) {
    for (const OptArgument& each : row.arguments()) {
      if (PlaceOf(each.form) == place) Print(text, each.form, opt);
    }
  }
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
  const OptOpRow& row = RowOf(opt.kind);
  OptArg request{row.wire, opt.axis, {}};
  if (opt.kind == OptOp::kThread) request.arg = {0, v1::AXIS_THREAD};
  for (const OptArgument& each : row.arguments()) {
    switch (each.form) {
      case kNumber: request.arg.push_back(opt.amount); break;
      case kAxisType: request.arg.push_back(static_cast<int64_t>(opt.target)); break;
      case kTop: request.arg.push_back(opt.top); break;
      case kClamp: request.arg.push_back(opt.clamp); break;
      case kTile:
      case kDimension: request.arg.push_back(opt.dimension); break;
      case kIgnored:
      case kNone: break;
    }
  }
  return request;
}

}  // namespace kiln::compiler
