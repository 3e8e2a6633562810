#include "server/admin/explanations.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"

namespace kiln::server {
namespace {

size_t BytesOf(const Explanation& explanation) {
  size_t bytes = 0;
  for (const ExplainedStage& stage : explanation.stages) bytes += stage.name.size() + stage.text.size();
  return bytes;
}

// The longest texts go until the rest is a fair part of what is kept.
void Fit(Explanation& explanation, size_t most) {
  size_t bytes = BytesOf(explanation);
  while (bytes > most) {
    const auto longest = std::max_element(explanation.stages.begin(), explanation.stages.end(),
                                          [](const auto& a, const auto& b) { return a.text.size() < b.text.size(); });
    bytes -= longest->text.size();
    longest->text = absl::StrCat("# ", longest->text.size(), " bytes, too long for this page: kiln explain has it\n");
    bytes += longest->text.size();
    if (longest->text.size() < 100) break;
  }
}

}  // namespace

struct Explanations::Kept {
  // Which does not keep the program, and its tenant's quota, from going.
  struct Row {
    std::weak_ptr<ProgramStore::Program::element_type> program;
    absl::StatusOr<Shown> shown;
  };
  std::atomic<bool> cancelled{false};
  absl::Mutex mutex;
  std::deque<Row> rows ABSL_GUARDED_BY(mutex);  // the latest first
  ProgramStore::Program under_way ABSL_GUARDED_BY(mutex);

  void Add(absl::StatusOr<Explanation> made) {
    auto shown = [&]() -> absl::StatusOr<Shown> {
      if (!made.ok()) return made.status();
      made->executable.clear_object();
      made->executable.clear_constants();
      Fit(*made, kMaxBytes / kKept);
      return std::make_shared<const Explanation>(*std::move(made));
    }();
    absl::MutexLock lock(&mutex);
    rows.push_front({under_way, std::move(shown)});
    under_way = nullptr;
    if (rows.size() > kKept) rows.pop_back();
  }
};

Explanations::Explanations(Engine* engine) : engine_(engine), kept_(std::make_shared<Kept>()) {}
Explanations::~Explanations() { kept_->cancelled.store(true); }

absl::StatusOr<Explanations::Shown> Explanations::Get(const ProgramStore::Program& program) {
  {
    absl::MutexLock lock(&kept_->mutex);
    const auto row = std::find_if(kept_->rows.begin(), kept_->rows.end(),
                                  [&program](const Kept::Row& each) { return each.program.lock() == program; });
    if (row != kept_->rows.end()) {
      if (row->shown.ok()) return row->shown;
      const absl::Status why = row->shown.status();
      kept_->rows.erase(row);
      return why;
    }
    if (kept_->under_way == program) return nullptr;
    if (kept_->under_way != nullptr)
      return absl::UnavailableError("another program's stages are being made; come back");
    kept_->under_way = program;
  }
  Control control;
  control.cancelled = &kept_->cancelled;
  control.deadline = SteadyNow() + absl::Seconds(kMaxSeconds);
  engine_->ExplainStored(program, control,
                         [kept = kept_](absl::StatusOr<Explanation> made) { kept->Add(std::move(made)); });
  return nullptr;
}

}  // namespace kiln::server
