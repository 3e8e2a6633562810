#include "compiler/tools/passes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/graph/devices.h"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "compiler/compile_program.h"
#include "compiler/import/wire.h"
#include "compiler/kernel/dots.h"
#include "compiler/opt/hoist.h"
#include "compiler/pass/passes.h"
#include "compiler/pass/pipeline.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/symbolic.h"
#include "compiler/source.h"

namespace kiln::compiler {
namespace {

// A row of the table, with the stage that it is of.
struct Row {
  const StagePasses* stage;
  const Pass* pass;
};

std::string NameOf(const Row& row) {
  return absl::StrReplaceAll(absl::StrCat(row.stage->name, "/", row.pass->name), {{" ", "_"}});
}

std::vector<Row> AllRows() {
  std::vector<Row> rows;
  for (const StagePasses& stage : AllPasses()) {
    for (const Pass& pass : stage.passes) rows.push_back({&stage, &pass});
  }
  return rows;
}

// Those that `name` may mean.
std::vector<Row> RowsCalled(absl::string_view name) {
  const std::string plain = absl::StrReplaceAll(name, {{" ", "_"}});
  std::vector<Row> found;
  for (const Row& row : AllRows()) {
    const std::string full = NameOf(row);
    if (full == plain || full == absl::StrCat(row.stage->name, "/", plain)) found.push_back(row);
  }
  return found;
}

// Keeps what a pass first leaves, and ends the compilation there.
class Watcher final : public CompileObserver {
 public:
  Watcher(absl::string_view pass, std::vector<std::string>* ran) : pass_(pass), ran_(ran) {}

  void OnPass(const PassRecord& record) override {
    if (record.name == pass_ && !text_.has_value()) text_ = record.text();
    if (ran_ == nullptr) return;
    ran_->push_back(absl::StrFormat("%-18s %9.1f us  %s", record.name, record.micros, record.kernel));
  }
  bool WantsAssembly() const override { return pass_ == "assembly"; }
  bool StopAfter(absl::string_view) const override { return text_.has_value(); }

  const std::optional<std::string>& text() const { return text_; }

 private:
  const absl::string_view pass_;
  std::vector<std::string>* const ran_;
  std::optional<std::string> text_;
};

v1::Target TargetOf(const PassSettings& settings) {
  if (!settings.target.empty()) return SourceTarget(settings.target);
  v1::Target target;
  target.set_kind(v1::Target::NULL_TARGET);
  for (const std::string& feature : settings.features) target.add_features(feature);
  target.mutable_tuning()->set_vector_bytes(settings.vector_bytes);
  target.mutable_tuning()->set_vector_registers(16);
  return target;
}

uint32_t SlotsOf(UOp* kernel) {
  uint32_t slots = 0;
  for (const UOp* uop : Toposort(kernel)) {
    if (uop->op() == Op::PARAM) slots = std::max(slots, uop->arg_as<BufferArg>().slot + 1);
  }
  return slots;
}

bool IsFor(const Row& row, Lowering& lowering, UOp* root) {
  return row.pass->before != nullptr && Verify(*row.pass->before, lowering.graph, root).ok();
}

// What to run for `wanted`, which is last, when all there is is the graph: nothing where that does not do.
std::vector<Row> WayTo(const Row& wanted, Lowering& lowering, UOp* root) {
  if (!wanted.stage->alone) return {};
  std::vector<Row> way;
  for (const Row& row : AllRows()) {
    if (!row.stage->alone) continue;
    const bool last = row.pass == wanted.pass;
    const Condition& when = row.pass->when;
    if (last || (row.pass->need == Need::kRequired && (when.holds == nullptr || when.holds(lowering, root))))
      way.push_back(row);
    if (last) break;
  }
  size_t first = way.size();
  while (first > 0 && !IsFor(way[first - 1], lowering, root)) --first;
  if (first == 0) return {};
  return {way.begin() + static_cast<std::ptrdiff_t>(first) - 1, way.end()};
}

// The passes that may run without a whole compile; nothing if there are none.
absl::StatusOr<bool> RunAlone(const std::vector<Row>& meant, const v1::Graph& wire, const v1::Target& target,
                              const Options& options, Watcher& watcher) {
  Graph graph;
  Lowering lowering(graph, options, &watcher);
  lowering.target = AllowedTarget(target, options.fast_math);
  lowering.body.target = &lowering.target;
  KILN_ASSIGN_OR_RETURN(lowering.generator, MakeCodeGenerator(lowering.target, options));
  KILN_ASSIGN_OR_RETURN(UOp * root, FromWire(wire, options.limits, graph));
  if (!options.constants.empty() && root->op() == Op::SINK) root = MarkConstants(graph, root, options.constants);
  lowering.body.client = root;
  lowering.body.slots = SlotsOf(root);
  for (const Row& wanted : meant) {
    const std::vector<Row> way = WayTo(wanted, lowering, root);
    for (const Row& row : way) {
      const absl::StatusOr<UOp*> made = RunPass(lowering, *row.pass, root);
      if (watcher.text().has_value()) return true;
      KILN_RETURN_IF_ERROR(made.status());
      root = *made;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const Row& row : AllRows()) names.push_back(NameOf(row));
  return names;
}

std::string FullName(absl::string_view name) {
  const std::vector<Row> rows = RowsCalled(name);
  return rows.empty() ? "" : NameOf(rows.front());
}

std::string PassList() {
  std::string text;
  for (const StagePasses& stage : AllPasses()) {
    absl::StrAppend(&text, stage.name, ": ", stage.takes,
                    stage.alone ? "; each pass runs alone" : "; kiln_opt compiles a client's graph up to the pass",
                    "\n");
    for (const Pass& pass : stage.passes) {
      const std::string specs = pass.after == nullptr    ? "makes no graph"
                                : pass.before == nullptr ? absl::StrCat("-> ", pass.after->name)
                                                         : absl::StrCat(pass.before->name, " -> ", pass.after->name);
      const char* need = pass.need == Need::kOptional ? "optional" : "required";
      absl::StrAppend(&text, absl::StrFormat("  %-18s %s  %-44s %s", pass.name, need, specs, pass.what),
                      pass.when.words.empty() ? "" : absl::StrCat("  [", pass.when.words, "]"), "\n");
    }
  }
  return text;
}

absl::StatusOr<std::string> RunNamedPass(absl::string_view name, absl::string_view text, const PassSettings& settings) {
  KILN_ASSIGN_OR_RETURN(const v1::Graph wire, ParseGraph(text));
  Options options;
  options.constants = settings.constants;
  options.disabled_passes = settings.disabled;
  KILN_RETURN_IF_ERROR(CheckDisabled(options.disabled_passes));
  if (absl::string_view dialect = name; absl::ConsumePrefix(&dialect, "render_"))
    return RenderSource(wire, dialect, options);
  if (name == "simplify") {
    Graph graph;
    KILN_ASSIGN_OR_RETURN(UOp * root, FromWire(wire, options.limits, graph));
    return ToText(GraphRewrite(root, SymbolicRules(), graph));
  }
  const std::vector<Row> meant = RowsCalled(name);
  if (meant.empty()) return absl::NotFoundError(absl::StrCat("there is no pass called ", name));
  const v1::Target target = TargetOf(settings);
  Watcher watcher(meant.front().pass->name, settings.ran);
  const bool several = NamesSeveralDevices(wire);
  const bool may_be_alone = std::any_of(meant.begin(), meant.end(), [](const Row& row) { return row.stage->alone; });
  if (!several && may_be_alone) {
    KILN_ASSIGN_OR_RETURN(const bool ran, RunAlone(meant, wire, target, options, watcher));
    if (ran) return *watcher.text();
  }
  const absl::Status compiled = several ? CompileForDevices(wire, target, options, &watcher).status()
                                        : Compile(wire, target, options, &watcher).status();
  if (watcher.text().has_value()) return *watcher.text();
  KILN_RETURN_IF_ERROR(compiled);
  return absl::NotFoundError(absl::StrCat("this graph compiles without ", name));
}

}  // namespace kiln::compiler
