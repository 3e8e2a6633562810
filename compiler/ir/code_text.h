// The code that a CUSTOM or CUSTOMI carries: text in the target's language, in which
// {0}, {1}, ... stand for the node's sources. Every other brace is a brace.
#ifndef KILN_COMPILER_IR_CODE_TEXT_H_
#define KILN_COMPILER_IR_CODE_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln::compiler {

// Bytes of one node's code.
inline constexpr size_t kMostCode = 4096;

// `text` with `sources` for its {n}; nothing if it names a source that is not there.
std::optional<std::string> FillCode(absl::string_view text, absl::Span<const std::string> sources);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_CODE_TEXT_H_
