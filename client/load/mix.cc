#include "client/load/mix.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/error.h"

namespace kiln::load {
namespace {

constexpr double kMaxRate = 1e6;
constexpr uint64_t kMaxOutstanding = 65'536, kMaxConnections = 1024;

absl::Status Wrong(absl::string_view where, absl::string_view field, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(std::string(field));
  return MakeError(detail, absl::StrCat(where, ": ", field.empty() ? "" : absl::StrCat(field, ": "), message));
}

// Each takes a value's text; false: it is none. What is right stands beside it in the tables.
bool Text(absl::string_view value, std::string& text) {
  text = std::string(value);
  return !text.empty();
}

bool Count(absl::string_view value, uint64_t most, uint64_t& count) {
  return absl::SimpleAtoi(value, &count) && count >= 1 && count <= most;
}

// "4096", "64K", "4M", "1G"
bool Bytes(absl::string_view value, uint64_t& bytes) {
  constexpr absl::string_view kUnits = "KMG";
  int shift = 0;
  if (!value.empty() && absl::StrContains(kUnits, value.substr(value.size() - 1))) {
    shift = 10 * static_cast<int>(kUnits.find(value.back()) + 1);
    value.remove_suffix(1);
  }
  if (!Count(value, (uint64_t{1} << 40) >> shift, bytes)) return false;
  bytes <<= shift;
  return true;
}

bool Rate(absl::string_view value, double& rate) {
  return absl::SimpleAtod(value, &rate) && std::isfinite(rate) && rate > 0 && rate <= kMaxRate;
}

bool Time(absl::string_view value, absl::Duration& time) {
  return absl::ParseDuration(std::string(value), &time) && time > absl::ZeroDuration() && time <= absl::Hours(24);
}

bool IsOfNames(char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; }

template <typename T>
struct Word {
  const char* word;
  T value;
};

template <typename T, size_t N>
bool OneOf(absl::string_view value, const Word<T> (&words)[N], T& chosen) {
  for (const Word<T>& each : words) {
    if (value != each.word) continue;
    chosen = each.value;
    return true;
  }
  return false;
}

constexpr Word<Kind> kKinds[] = {{"execute", Kind::kExecute}, {"upload", Kind::kUpload}, {"compile", Kind::kCompile}};
constexpr Word<Spacing> kSpacings[] = {{"poisson", Spacing::kPoisson}, {"constant", Spacing::kConstant}};
constexpr Word<bool> kArguments[] = {{"handles", false}, {"inline", true}};

template <typename Spec>
struct Field {
  const char* name;
  const char* wants;
  bool (*set)(absl::string_view value, Spec& spec);
};

constexpr Field<TenantSpec> kTenantFields[] = {
    {"token_file", "the name of a file", [](absl::string_view v, TenantSpec& t) { return Text(v, t.token_file); }},
    {"connections", "a number from 1 to 1024",
     [](absl::string_view v, TenantSpec& t) { return Count(v, kMaxConnections, t.connections); }},
};

constexpr Field<ClassSpec> kClassFields[] = {
    {"kind", "execute, upload or compile", [](absl::string_view v, ClassSpec& c) { return OneOf(v, kKinds, c.kind); }},
    {"graph", "the name of a file", [](absl::string_view v, ClassSpec& c) { return Text(v, c.graph); }},
    {"tenant", "the name of a tenant", [](absl::string_view v, ClassSpec& c) { return Text(v, c.tenant); }},
    {"rate", "requests a second: more than 0, at most 1000000",
     [](absl::string_view v, ClassSpec& c) { return Rate(v, c.rate); }},
    {"arrivals", "poisson or constant",
     [](absl::string_view v, ClassSpec& c) { return OneOf(v, kSpacings, c.spacing); }},
    {"deadline", "a time, such as 20ms or 1.5s", [](absl::string_view v, ClassSpec& c) { return Time(v, c.deadline); }},
    {"outstanding", "a number from 1 to 65536",
     [](absl::string_view v, ClassSpec& c) { return Count(v, kMaxOutstanding, c.outstanding); }},
    {"bytes", "a number, such as 4096, 64K or 4M", [](absl::string_view v, ClassSpec& c) { return Bytes(v, c.bytes); }},
    {"arguments", "handles or inline",
     [](absl::string_view v, ClassSpec& c) { return OneOf(v, kArguments, c.inline_arguments); }},
};

template <typename Spec, size_t N>
absl::Status Set(absl::Span<const absl::string_view> words, absl::string_view where, const Field<Spec> (&fields)[N],
                 Spec& spec) {
  absl::flat_hash_set<absl::string_view> seen;
  for (const absl::string_view word : words) {
    const size_t equals = word.find('=');
    const absl::string_view name = word.substr(0, equals);
    if (equals == absl::string_view::npos) return Wrong(where, "", absl::StrCat(word, ": write FIELD=VALUE"));
    const auto* const field =
        std::find_if(std::begin(fields), std::end(fields), [&](const Field<Spec>& each) { return each.name == name; });
    if (field == std::end(fields)) {
      return Wrong(where, name,
                   absl::StrCat("there is no such field; there are ",
                                absl::StrJoin(fields, ", ", [](std::string* out, const Field<Spec>& each) {
                                  absl::StrAppend(out, each.name);
                                })));
    }
    if (!seen.insert(name).second) return Wrong(where, name, "it is there twice");
    const absl::string_view value = word.substr(equals + 1);
    if (!field->set(value, spec)) return Wrong(where, name, absl::StrCat("\"", value, "\" is not ", field->wants));
  }
  return absl::OkStatus();
}

}  // namespace

double Mix::rate() const {
  double sum = 0;
  for (const ClassSpec& each : classes) sum += each.rate;
  return sum;
}

absl::Status AddLine(absl::string_view line, absl::string_view where, Mix& mix) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  const bool tenant = !words.empty() && words[0] == "tenant";
  if (!tenant && (words.empty() || words[0] != "class")) {
    return Wrong(where, "", "a line begins with the word tenant or class, and its name");
  }
  if (words.size() < 2 || absl::StrContains(words[1], '=')) {
    return Wrong(where, "",
                 absl::StrCat("the ", words[0], " has no name: write \"", words[0], " NAME FIELD=VALUE …\""));
  }
  if (!std::all_of(words[1].begin(), words[1].end(), IsOfNames)) {
    return Wrong(where, "", absl::StrCat("the name \"", words[1], "\": write letters, digits, '.', '_' and '-'"));
  }
  const auto fields = absl::MakeConstSpan(words).subspan(2);
  if (tenant) {
    TenantSpec& spec = mix.tenants.emplace_back();
    spec.name = std::string(words[1]);
    return Set(fields, where, kTenantFields, spec);
  }
  ClassSpec& spec = mix.classes.emplace_back();
  spec.name = std::string(words[1]);
  spec.where = std::string(where);
  return Set(fields, where, kClassFields, spec);
}

std::string NameOf(absl::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);  // none: npos + 1 is 0
  std::string name(path.substr(0, path.rfind('.')));
  std::replace_if(name.begin(), name.end(), [](char c) { return !IsOfNames(c); }, '_');
  return name;
}

absl::StatusOr<Mix> ParseMix(absl::string_view text, absl::string_view name) {
  Mix mix;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (!line.empty()) KILN_RETURN_IF_ERROR(AddLine(line, absl::StrCat(name, ":", number), mix));
  }
  return mix;
}

absl::Status CheckMix(const Mix& mix) {
  if (mix.classes.empty())
    return Wrong("the load", "", "it has no class: name a graph, or add a line \"class NAME …\"");
  absl::flat_hash_set<absl::string_view> tenants, classes;
  for (const TenantSpec& tenant : mix.tenants) {
    if (!tenants.insert(tenant.name).second) return Wrong("tenant " + tenant.name, "", "the name is taken already");
  }
  for (const ClassSpec& each : mix.classes) {
    if (!classes.insert(each.name).second) {
      return Wrong(each.where, "", absl::StrCat("the name ", each.name, " is taken already"));
    }
    if (!each.tenant.empty() && !tenants.contains(each.tenant)) {
      return Wrong(each.where, "tenant", absl::StrCat("there is no line \"tenant ", each.tenant, " …\""));
    }
    if (each.kind == Kind::kUpload && !each.graph.empty()) return Wrong(each.where, "graph", "an upload has none");
    if (each.kind != Kind::kUpload && each.graph.empty()) {
      return Wrong(each.where, "graph", "it is missing: what is run or compiled");
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln::load
