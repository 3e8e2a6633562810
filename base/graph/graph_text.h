// The numbered text form of a graph (`.uop`): one line a node, exact both ways.
//
//   dialect TINYSPEC_2026
//   # y = relu(x + 1.5)
//   0 CONST [] weakint 8
//   1 PARAM : float32 [0] slot=0 name="x"          # (8,)
//   2 CONST [] float32 1.5
//   3 ADD [1, 2]
//   4 CONST [] float32 0.0
//   5 MAX [3, 4] @"relu"
//   6 SINK [5]
//
// Grammar. Blanks separate tokens; '#' outside quotes begins a comment; blank
// lines count for nothing; strings are in double quotes with C escapes.
//   file    = [ "dialect" DIALECT ] node…
//   node    = index OP [ ":" dtype ] [ "[" [ index { "," index } ] "]" ] [ arg ] [ "@" string ]
//   arg     = [dtype] value                         constant (const_text.h)
//           | "slot=" n [ "dtype=" dtype ] [ "device=" strings ] [ "space=" SPACE ] [ "name=" string ]
//                       [ "min=" i ] [ "max=" i ]                          buffer
//           | "axes=" ints                                                 axes
//           | "flip=" "(" 0|1, … ")"                                       flip
//           | OP "axes=" ints                                              reduce
//           | "fill=" [ [dtype] value ]                                    pad
//           | "to=" dtype                                                  cast_to
//           | "index=" i                                                   index
//           | "load" [ "device=" strings ] [ "space=" SPACE ]              load
//           | "range=" ints [ "type=" AXIS ]                               range
//           | "special=" string                                            special
//           | "kernel" [ "name=" string ] [ "opts=(" opt, … ")" ] [ "nolocals" ]   kernel
//           | "wmma=(" n "," m "," k ")" [ "in=" dtype ] [ "out=" dtype ] [ "threads=" i ]
//                       [ "upcast=(" ints, … ")" ] [ "reduce=" ints ]      wmma
//           | "text=" string                                               text
//           | "data=" string                                               data
//           | "views=(" view, … ")"                                        view
//           | "allreduce=" OP [ "device=" strings ]                        all_reduce
//           | "opt=" opt                                                   opt
//   opt     = KIND i ints
//   view    = "{" "shape=" ints "stride=" ints "offset=" i [ "begin=" ints ] [ "end=" ints ] "}"
//   ints    = "(" i, … ")"          strings = "(" string, … ")"
// OP, SPACE, AXIS and KIND are the enums' names in graph.proto (AXIS without its
// AXIS_), or a number that has no name. The dtype after ':' is the node's dtype
// *check*. Where the argument has the same dtype (constant, buffer), it is not
// said twice; an argument of no dtype says `untyped`.
//
// `index` must count up from 0: it is there for the reader. Sources are not
// checked here: HashGraph and the compiler do that.
#ifndef KILN_BASE_GRAPH_GRAPH_TEXT_H_
#define KILN_BASE_GRAPH_GRAPH_TEXT_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/graph.pb.h"

namespace kiln {

// The text of `graph`, any graph. `annotate`, if given, is called with each
// node's index; what it returns, unless empty, becomes the line's comment.
std::string PrintGraph(const v1::Graph& graph, const std::function<std::string(int)>& annotate = nullptr);

// The argument as a line of the text form has it; empty if there is none.
std::string PrintArg(const v1::UOp& uop);

inline constexpr size_t kMaxGraphText = size_t{64} << 20;

// The graph that prints as `text`: ParseGraph(PrintGraph(g)) equals g field by
// field. MALFORMED_MESSAGE says line, column and what was expected;
// GRAPH_TOO_LARGE if the text is longer than kMaxGraphText.
absl::StatusOr<v1::Graph> ParseGraph(absl::string_view text);

}  // namespace kiln

#endif  // KILN_BASE_GRAPH_GRAPH_TEXT_H_
