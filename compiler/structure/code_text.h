// The code that a CUSTOM or CUSTOMI carries: text in the target's language, in which
// {0}, {1}, ... stand for the node's sources. Every other brace is a brace. And the
// SOURCE of a whole program.
#ifndef KILN_COMPILER_STRUCTURE_CODE_TEXT_H_
#define KILN_COMPILER_STRUCTURE_CODE_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

// Bytes of one node's code, and of a whole program's (SOURCE).
inline constexpr size_t kMaxCode = 4096;
inline constexpr size_t kMaxSource = size_t{1} << 20;

// `text` with `sources` for its {n}; nothing if it names a source that is not there.
std::optional<std::string> FillCode(absl::string_view text, absl::Span<const std::string> sources);

// The text that stands for the instructions of `linear` (KernelArg::source); mostly none.
const std::string& SourceOf(const UOp* linear);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_CODE_TEXT_H_
