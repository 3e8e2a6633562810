// Pictures: graphs drawn by Graphviz, and text on a page.
#ifndef KILN_CLIENT_CLI_TEXT_SVG_H_
#define KILN_CLIENT_CLI_TEXT_SVG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::cli {

absl::StatusOr<std::string> GraphToSvg(const v1::Graph& graph);

// A heading, and lines in one width of letter.
std::string TextToSvg(absl::string_view heading, absl::string_view text);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_SVG_H_
