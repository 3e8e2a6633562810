// Scalar constants in the text form: each spelling the wire has, told apart.
//
//   true  false      b
//   5  -5            i
//   5u               u
//   1.5  -0.0  inf   bits: the shortest decimal that rounds to the pattern in
//     nan  1e-45     the constant's dtype; nan is the positive quiet one
//   bits(0x7fc00001) bits: any pattern, where no decimal stands for it
//   f(0.1)           f, a double that is still to be rounded; f(0x…) by its bits
//   decimal("12")    decimal, quoted as it is
//   invalid          invalid: true (invalid(false) if it is set to false)
//   none             no value at all
#ifndef KILN_BASE_GRAPH_CONST_TEXT_H_
#define KILN_BASE_GRAPH_CONST_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "base/graph/text_scanner.h"
#include "kiln/v1/graph.pb.h"

namespace kiln {

// The value alone, without its dtype.
std::string PrintConstValue(const v1::ConstArg& arg);

// Reads a value into `arg`, whose dtype is already set: it decides what a
// decimal means.
void ParseConstValue(TextScanner& in, v1::ConstArg& arg);

}  // namespace kiln

#endif  // KILN_BASE_GRAPH_CONST_TEXT_H_
