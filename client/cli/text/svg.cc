#include "client/cli/text/svg.h"

#include <graphviz/gvc.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/graph/graph_dot.h"

namespace kiln::cli {
namespace {

constexpr size_t kLineHeight = 16, kLetterWidth = 8, kMargin = 12;

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

}  // namespace

absl::StatusOr<std::string> GraphToSvg(const v1::Graph& graph) {
  GVC_t* context = gvContext();
  Agraph_t* picture = agmemread(GraphToDot(graph).c_str());
  char* data = nullptr;
  unsigned int length = 0;
  const bool drawn = picture != nullptr && gvLayout(context, picture, "dot") == 0 &&
                     gvRenderData(context, picture, "svg", &data, &length) == 0;
  std::string svg = drawn ? std::string(data, length) : "";
  if (drawn) {
    gvFreeRenderData(data);
    gvFreeLayout(context, picture);
  }
  if (picture != nullptr) agclose(picture);
  gvFreeContext(context);
  if (!drawn) return absl::InternalError("Graphviz could not draw the graph");
  return svg;
}

std::string TextToSvg(absl::string_view heading, absl::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  size_t longest = heading.size();
  for (const std::string& line : lines) longest = std::max(longest, line.size());
  const size_t width = 2 * kMargin + kLetterWidth * longest, height = 2 * kMargin + kLineHeight * (lines.size() + 2);
  std::string svg = absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
      "\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"", kMargin, "\" y=\"",
      kMargin + kLineHeight, "\" font-family=\"Helvetica\" font-size=\"14\" font-weight=\"bold\">", Escaped(heading),
      "</text>\n<g font-family=\"monospace\" font-size=\"13\" xml:space=\"preserve\">\n");
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppend(&svg, "<text x=\"", kMargin, "\" y=\"", kMargin + kLineHeight * (i + 3), "\">", Escaped(lines[i]),
                    "</text>\n");
  }
  return svg + "</g>\n</svg>\n";
}

}  // namespace kiln::cli
