// The words of a command line, as far as they are typed: what may come next, and what was meant.
//
// Both look at the same tree of commands and options that CLI11 parses by, so neither can forget one.
#ifndef KILN_CLIENT_CLI_SHELL_WORDS_H_
#define KILN_CLIENT_CLI_SHELL_WORDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace CLI {
class App;
}

namespace kiln::cli {

// What the last of `words` may become, sorted: commands, or options if it begins with '-'. Nothing where a value or a
// file's name is due.
std::vector<std::string> Completions(const CLI::App& app, absl::Span<const std::string> words);

// Of the first of `words` that is neither a command nor an option, the one that is most like it; empty if none is much
// like it, or all are known.
std::string Nearest(const CLI::App& app, absl::Span<const std::string> words);

// How many characters must be added, taken away, changed or exchanged with their neighbour to make `b` of `a`.
size_t EditDistance(absl::string_view a, absl::string_view b);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_SHELL_WORDS_H_
