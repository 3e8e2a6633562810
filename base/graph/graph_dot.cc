#include "base/graph/graph_dot.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/graph/enum_text.h"
#include "base/graph/graph_text.h"

namespace kiln {
namespace {

// The enum's numbers group the ops: one row a range of graph.proto.
struct Family {
  int first;
  int last;
  const char* fill;
  const char* line;
};

constexpr Family kFamilies[] = {
    {v1::PERMUTE, v1::BITCAST, "#dcedc8", "#2e7d32"},      // movement
    {v1::REDUCE, v1::ALLREDUCE, "#ffcdd2", "#c62828"},     // reduce
    {v1::FUNCTION, v1::GETTUPLE, "#bbdefb", "#1565c0"},    // call
    {v1::LOAD, v1::LOAD, "#f3dede", "#c08080"},            // load
    {v1::STORE, v1::STORE, "#e1bee7", "#7b1fa2"},          // store
    {v1::RANGE, v1::LINEAR, "#d7ccc8", "#795548"},         // ordering
    {v1::RECIPROCAL, v1::THREEFRY, "#fff3c4", "#f9a825"},  // elementwise
    {v1::CONTIGUOUS, v1::DETACH, "#ffe0b2", "#e65100"},    // markers
    {v1::COPY, v1::MSELECT, "#d1c4e9", "#512da8"},         // several devices
};
constexpr Family kOther = {0, 0, "#eceff1", "#616161"};

const Family& FamilyOf(v1::Op op) {
  for (const Family& family : kFamilies) {
    if (op >= family.first && op <= family.last) return family;
  }
  return kOther;
}

// Loops and coordinates are coloured by what kind of axis they are.
struct AxisColour {
  v1::AxisType type;
  const char* line;
};

constexpr AxisColour kAxisColours[] = {
    {v1::AXIS_GLOBAL, "#1565c0"}, {v1::AXIS_LOCAL, "#00838f"},        {v1::AXIS_WARP, "#00acc1"},
    {v1::AXIS_THREAD, "#42a5f5"}, {v1::AXIS_LOOP, "#616161"},         {v1::AXIS_REDUCE, "#c62828"},
    {v1::AXIS_UPCAST, "#f9a825"}, {v1::AXIS_GROUP_REDUCE, "#e53935"}, {v1::AXIS_UNROLL, "#7b1fa2"},
};

// The colour of the axis that `uop` counts along; null if it counts along none.
const char* AxisColourOf(const v1::UOp& uop) {
  v1::AxisType type = v1::AXIS_TYPE_UNSPECIFIED;
  if (uop.op() == v1::RANGE && uop.has_range()) type = uop.range().type();
  if (uop.op() == v1::SPECIAL) {
    type = uop.special().name().substr(0, 4) == "lidx" ? v1::AXIS_LOCAL : v1::AXIS_GLOBAL;
  }
  for (const AxisColour& colour : kAxisColours) {
    if (colour.type == type) return colour.line;
  }
  return nullptr;
}

constexpr size_t kMaxShown = 80;  // characters of one line of a label

// Safe inside a DOT string, and short; never cut inside a UTF-8 character.
std::string Label(absl::string_view text) {
  std::string out;
  size_t end = std::min(text.size(), kMaxShown);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  for (char c : text.substr(0, end)) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c == '\n' ? ' ' : c);
  }
  if (text.size() > kMaxShown) out.append("...");
  return out;
}

}  // namespace

std::string GraphToDot(const v1::Graph& graph, const std::function<std::string(int)>& annotate) {
  std::string dot =
      "digraph graph_of_uops {\n"
      "  rankdir=TB;\n"
      "  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=11];\n"
      "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#616161\"];\n";
  for (int i = 0; i < graph.nodes_size(); ++i) {
    const v1::UOp& uop = graph.nodes(i);
    const Family& family = FamilyOf(uop.op());
    std::string label = absl::StrCat(i, " ", PrintEnum(uop.op()));
    if (uop.dtype() != v1::DTYPE_UNSPECIFIED) absl::StrAppend(&label, " : ", PrintDType(uop.dtype()));
    if (const std::string arg = PrintArg(uop); !arg.empty()) absl::StrAppend(&label, "\\n", Label(arg));
    if (annotate != nullptr) {
      if (const std::string note = annotate(i); !note.empty()) absl::StrAppend(&label, "\\n", Label(note));
    }
    const char* axis = AxisColourOf(uop);
    absl::StrAppend(&dot, "  n", i, " [label=\"", label, "\", fillcolor=\"", axis != nullptr ? axis : family.fill,
                    "\", color=\"", axis != nullptr ? axis : family.line,
                    axis != nullptr ? "\", fontcolor=\"white" : "", "\"];\n");
    for (int k = 0; k < uop.src_size(); ++k) {
      if (uop.src(k) >= static_cast<uint32_t>(graph.nodes_size())) continue;
      absl::StrAppend(&dot, "  n", uop.src(k), " -> n", i);
      if (uop.src_size() > 1) absl::StrAppend(&dot, " [label=\"", k, "\"]");
      dot.append(";\n");
    }
  }
  dot.append("}\n");
  return dot;
}

}  // namespace kiln
