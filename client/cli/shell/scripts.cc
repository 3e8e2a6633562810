#include "client/cli/shell/scripts.h"

#include "base/check.h"

namespace kiln::cli {
namespace {

struct Row {
  const char* shell;
  const char* script;
};

// Where `kiln` has nothing to say a file's name is due, which shells complete themselves.
constexpr Row kRows[] = {
    {"bash", R"sh(_kiln() {
  local IFS=$'\n'
  COMPREPLY=($(kiln completions --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o bashdefault -F _kiln kiln
)sh"},
    {"zsh", R"sh(#compdef kiln
_kiln() {
  local -a found
  found=(${(f)"$(kiln completions --words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( ${#found} )); then compadd -a found; else _files; fi
}
if [ "$funcstack[1]" = "_kiln" ]; then _kiln "$@"; else compdef _kiln kiln; fi
)sh"},
    // Without -f fish offers files beside the words.
    {"fish", R"sh(function __kiln_words
  set -l found (kiln completions --words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c kiln -f -a '(__kiln_words)'
)sh"},
};

}  // namespace

std::vector<std::string> Shells() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.push_back(row.shell);
  return names;
}

std::string CompletionScript(absl::string_view shell) {
  for (const Row& row : kRows) {
    if (shell == row.shell) return row.script;
  }
  KILN_CHECK(!"no such shell");
  return "";
}

}  // namespace kiln::cli
