#include "client/cli/shell/words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace kiln::cli {
namespace {

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    names.push_back(each->get_name());
  return names;
}

// With those of the commands around it.
std::vector<std::string> OptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each = &app; each != nullptr; each = each->get_parent()) {
    for (const CLI::Option* option : each->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back(absl::StrCat("--", name));
      for (const std::string& name : option->get_snames()) names.push_back(absl::StrCat("-", name));
    }
  }
  return names;
}

bool Has(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether a value follows the option as a word of its own.
bool TakesValue(const CLI::App& app, const std::string& name) {
  for (const CLI::App* each = &app; each != nullptr; each = each->get_parent()) {
    if (const CLI::Option* option = each->get_option_no_throw(name)) return option->get_type_size() != 0;
  }
  return false;
}

// A walk over words from the left.
struct Walk {
  explicit Walk(const CLI::App& app) : at(&app) {}

  // Whether the word is known: a command, an option or its value, or what a command without commands is given.
  bool Take(const std::string& word) {
    if (value_due) {
      value_due = word == "=";  // bash makes three words of --option=value
      return true;
    }
    if (absl::StartsWith(word, "-") && word.size() > 1) {
      const size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      value_due = equals == std::string::npos && TakesValue(*at, name);
      return Has(OptionsOf(*at), name);
    }
    const std::vector<std::string> commands = CommandsOf(*at);
    if (commands.empty()) return true;
    if (!Has(commands, word)) return false;
    at = at->get_subcommand(word);
    return true;
  }

  const CLI::App* at;
  bool value_due = false;
};

}  // namespace

std::vector<std::string> Completions(const CLI::App& app, absl::Span<const std::string> words) {
  if (words.empty()) return {};
  Walk walk(app);
  for (const std::string& word : words.first(words.size() - 1)) walk.Take(word);
  if (walk.value_due) return {};
  const std::string& last = words.back();
  std::vector<std::string> found = absl::StartsWith(last, "-") ? OptionsOf(*walk.at) : CommandsOf(*walk.at);
  found.erase(std::remove_if(found.begin(), found.end(),
                             [&](const std::string& name) { return !absl::StartsWith(name, last); }),
              found.end());
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::string Nearest(const CLI::App& app, absl::Span<const std::string> words) {
  Walk walk(app);
  for (const std::string& word : words) {
    if (walk.Take(word)) continue;
    const std::string name = word.substr(0, word.find('='));
    std::string nearest;
    size_t least = std::max<size_t>(1, name.size() / 3) + 1;
    for (const std::string& known : absl::StartsWith(name, "-") ? OptionsOf(*walk.at) : CommandsOf(*walk.at)) {
      const size_t distance = EditDistance(name, known);
      if (distance >= least) continue;
      least = distance;
      nearest = known;
    }
    return nearest;
  }
  return "";
}

size_t EditDistance(absl::string_view a, absl::string_view b) {
  // Rows of the table of distances between beginnings of `a` and `b`: two before the current one.
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace kiln::cli
