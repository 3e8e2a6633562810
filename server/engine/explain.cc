// Engine::Explain: one compilation, watched.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "compiler/target/gpu/architectures.h"
#include "server/engine/engine.h"

namespace kiln::server {
namespace {

// Collects the text of every stage asked for.
class StageCollector final : public compiler::CompileObserver {
 public:
  explicit StageCollector(const std::vector<std::string>& wanted) : wanted_(wanted) {}

  void OnPass(const compiler::PassRecord& record) override {
    std::string plain(record.name);
    // Code comes last and has no place in the order of passes.
    const bool code = plain == "llvm" || plain == "source" || plain == "assembly";
    std::string numbered = code ? plain : absl::StrFormat("%03d.%s", 10 * order_++, plain);
    if (!Wanted(plain) && !Wanted(numbered)) return;
    if (!record.kernel.empty()) absl::StrAppend(&numbered, "/", record.kernel);
    stages.push_back({std::move(numbered), record.text ? record.text() : "", record.micros, record.nodes});
  }

  bool WantsAssembly() const override { return Wanted("assembly"); }

  // Numbered or not.
  bool WantsObject() const override {
    return wanted_.empty() || std::any_of(wanted_.begin(), wanted_.end(),
                                          [](absl::string_view name) { return absl::EndsWith(name, "object"); });
  }

  std::vector<ExplainedStage> stages;

 private:
  bool Wanted(const std::string& name) const {
    return wanted_.empty() || std::find(wanted_.begin(), wanted_.end(), name) != wanted_.end();
  }

  const std::vector<std::string>& wanted_;
  int order_ = 0;
};

absl::StatusOr<Explanation> Watch(const CompileFn& compile, const ProgramId& id, const v1::Graph& graph,
                                  const ExplainRequest& request, const Control& control) {
  StageCollector collector(request.stages);
  Explanation explanation;
  v1::Target target = id.device->target();
  if (!request.source.empty()) {
    target = v1::Target();
    target.set_kind(v1::Target::C_SOURCE);
    target.set_arch(request.source);
    if (std::optional<v1::Target> gpu = compiler::GpuTarget(request.source); gpu.has_value()) target = *std::move(gpu);
  }
  KILN_ASSIGN_OR_RETURN(CompiledProgram program,
                        compile(graph, target, request.options, &collector, {id.domain, control}));
  if (auto* one = std::get_if<v1::Executable>(&program)) {
    explanation.executable = std::move(*one);
  } else {
    const auto& several = std::get<v1::MultiProgram>(program);
    *explanation.executable.mutable_signature() = several.signature();
    for (const v1::Executable& executable : several.executables())
      explanation.executable.mutable_kernels()->MergeFrom(executable.kernels());
  }
  explanation.graph_hash = id.graph_hash;
  explanation.stages = std::move(collector.stages);
  return explanation;
}

}  // namespace

void Engine::Explain(ExplainRequest request, const Control& control, ExplainCallback done) {
  auto options = Settled(request.options);
  if (!options.ok()) return done(std::move(options).status());
  request.options = *std::move(options);
  const auto id = Identify(request.graph, request.graph_hash, request.device, request.options, request.caller.get(),
                           /*hashed=*/nullptr, control);
  if (!id.ok()) return done(id.status());
  const auto schedule = [this, id = *id](ExplainRequest asked, ProgramStore::Program stored, const Control& until,
                                         ExplainCallback explained) {
    auto place = PlaceToCompile(until.account);
    if (!place.ok()) return explained(std::move(place).status());
    pool_->Schedule(until, [this, asked = std::move(asked), id, stored = std::move(stored), until,
                            place = *std::move(place), explained = std::move(explained)]() mutable {
      if (absl::Status wanted = until.Check(); !wanted.ok()) return explained(std::move(wanted));
      v1::Graph kept;
      if (stored != nullptr && !kept.ParseFromString(stored->graph)) {
        return explained(MakeError(v1::INTERNAL_FAULT, "a stored graph cannot be read back"));
      }
      auto made = [&] {
        const Meter meter(until.account, Quota::kCompileSeconds);
        return Watch(compile_, id, stored != nullptr ? kept : *asked.graph, asked, until);
      }();
      place.Release();
      explained(std::move(made));
    });
  };
  // As it is kept, if it is: with the schedules that a search has found.
  if (const ProgramStore::Program kept = store_.Find(*id); kept != nullptr && request.source.empty())
    request.options.schedules = kept->schedules;
  if (request.graph != nullptr) return schedule(std::move(request), nullptr, control, std::move(done));
  const compiler::Options asked = request.options;
  store_.GetOrLoad(*id, asked, control,
                   [schedule, request = std::move(request), control, done = std::move(done)](
                       absl::StatusOr<ProgramStore::Program> stored, runtime::CacheOutcome) mutable {
                     if (!stored.ok()) return done(std::move(stored).status());
                     if (request.source.empty()) request.options.schedules = (*stored)->schedules;
                     schedule(std::move(request), *std::move(stored), control, std::move(done));
                   });
}

void Engine::ExplainStored(ProgramStore::Program stored, const Control& control, ExplainCallback done) {
  ExplainRequest asked;
  auto options = Settled({});
  if (!options.ok()) return done(std::move(options).status());
  asked.options = *std::move(options);
  asked.options.schedules = stored->schedules;
  pool_->Schedule(
      [this, stored = std::move(stored), asked = std::move(asked), control, explained = std::move(done)]() mutable {
        if (absl::Status wanted = control.Check(); !wanted.ok()) return explained(std::move(wanted));
        v1::Graph graph;
        if (!graph.ParseFromString(stored->graph))
          return explained(MakeError(v1::INTERNAL_FAULT, "a stored graph cannot be read back"));
        ProgramId id;
        id.domain = stored->domain;
        id.graph_hash = stored->graph_hash;
        id.device = stored->device;
        explained(Watch(compile_, id, graph, asked, control));
      });
}

}  // namespace kiln::server
