// Where a command's text goes.
#ifndef KILN_CLIENT_CLI_TEXT_OUTPUT_H_
#define KILN_CLIENT_CLI_TEXT_OUTPUT_H_

#include <string>

#include "absl/status/status.h"

namespace kiln::cli {

// Into a new file, or, without a name, to standard output. UNAVAILABLE with the name if it cannot be written.
absl::Status WriteText(const std::string& text, const std::string& file);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_OUTPUT_H_
