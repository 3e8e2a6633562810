// What a shell is told so that it completes the words of `kiln`: a few lines that ask `kiln completions --words`.
#ifndef KILN_CLIENT_CLI_SHELL_SCRIPTS_H_
#define KILN_CLIENT_CLI_SHELL_SCRIPTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kiln::cli {

// Those there are scripts for.
std::vector<std::string> Shells();

// For one of them.
std::string CompletionScript(absl::string_view shell);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_SHELL_SCRIPTS_H_
