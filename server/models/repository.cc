// Tested by tests/e2e/serving/models_test.cc.
#include "server/models/repository.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/memory/over_limit.h"

namespace kiln::server {
namespace {

// Of Load() and Unload(), that wait.
constexpr size_t kMaxJobs = 64;
// What may succeed by itself is tried again after one period, then two, four, up to this many.
constexpr int kMaxPeriods = 128;

// As a client may be shown it, whatever bytes the file has. No details travel with it, so a limit stands in the text.
std::string ReasonOf(const absl::Status& status) {
  std::string reason = absl::CHexEscape(status.message());
  const std::optional<v1::ErrorDetail> detail = DetailOf(status);
  if (detail.has_value() && !detail->limit().empty())
    absl::StrAppend(&reason, " (", detail->limit(), ": ", detail->used(), ", at most ", detail->limit_value(), ")");
  return reason;
}

bool MayPass(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status);
}

}  // namespace

absl::Status UnknownModel(absl::string_view name, absl::string_view version) {
  v1::ErrorDetail detail;
  detail.set_code(v1::UNKNOWN_MODEL);
  detail.set_field("model_name");
  const std::string shown = absl::CHexEscape(name.substr(0, 200));
  if (version.empty()) return MakeError(detail, absl::StrCat("there is no model \"", shown, "\" that is ready"));
  return MakeError(detail, absl::StrCat("there is no version \"", absl::CHexEscape(version.substr(0, 40)),
                                        "\" of model \"", shown, "\" that is ready"));
}

ModelRepository::ModelRepository(Options options, Engine* engine, std::shared_ptr<spdlog::logger> log)
    : options_(std::move(options)),
      engine_(engine),
      log_(std::move(log)),
      session_(engine->sessions().HomeOf(kOwner)),
      constants_(session_->account()) {}

ModelRepository::~ModelRepository() { Stop(); }

void ModelRepository::Start() {
  thread_ = std::thread([this] { Work(); });
}

void ModelRepository::Stop() {
  stopping_.store(true);
  bell_.Ring();
  if (thread_.joinable()) thread_.join();
  std::deque<Job> left;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    left.swap(jobs_);
  }
  for (Job& job : left) job.done(MakeError(v1::SHUTTING_DOWN, "the server stops"));
  if (!ready_.HasBeenNotified()) ready_.Notify();
}

void ModelRepository::Work() {
  Poll().IgnoreError();  // it has been logged
  if (stopping_.load()) return;
  ready_.Notify();
  while (!stopping_.load()) {
    Job job;
    {
      absl::MutexLock lock(&mutex_);
      if (!jobs_.empty()) {
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
    }
    if (job.done) {
      absl::Status status = Run(job);
      job.done(std::move(status));
      continue;
    }
    bell_.Wait(options_.period);
    if (!stopping_.load()) Poll().IgnoreError();
  }
}

void ModelRepository::Ask(Job job) {
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) {
      refused = MakeError(v1::SHUTTING_DOWN, "the server stops");
    } else if (jobs_.size() >= kMaxJobs) {
      refused = OverLimit("waiting loads", kMaxJobs, jobs_.size() + 1, "too many loads and unloads wait");
    } else {
      jobs_.push_back(std::move(job));
    }
  }
  if (!refused.ok()) return job.done(std::move(refused));
  bell_.Ring();
}

void ModelRepository::Load(std::string name, Done done) { Ask({std::move(name), true, std::move(done)}); }
void ModelRepository::Unload(std::string name, Done done) { Ask({std::move(name), false, std::move(done)}); }

absl::Status ModelRepository::Run(const Job& job) {
  if (!IsModelName(job.name)) return UnknownModel(job.name, "");
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(job.name);
    if (found == entries_.end() && !job.load) return UnknownModel(job.name, "");
    if (found != entries_.end()) {
      found->second.unloaded = !job.load;
      // What failed is tried again.
      for (auto& [version, slot] : found->second.versions) {
        if (!slot.reason.empty()) slot.tried.clear();
      }
    }
  }
  if (absl::Status polled = Poll(); !polled.ok()) {
    if (DetailOf(polled).has_value()) return polled;
    v1::ErrorDetail detail;
    detail.set_code(v1::UNKNOWN_MODEL);
    detail.set_field("model_name");
    return MakeError(detail, absl::StrCat("nothing has changed: ", ReasonOf(polled)));
  }
  if (!job.load) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(job.name);
  if (found == entries_.end()) return UnknownModel(job.name, "");
  for (const auto& [version, slot] : found->second.versions) {
    if (slot.reason.empty()) continue;
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field("model_name");
    return MakeError(detail, absl::StrCat("version ", version, " cannot be loaded: ", slot.reason));
  }
  return absl::OkStatus();
}

std::vector<ModelFiles> ModelRepository::Wanted(FolderScan& scan) const {
  std::map<std::string, std::vector<uint64_t>> there;
  for (const ModelFiles& files : scan.models) there[files.name].push_back(files.version);
  std::set<std::pair<std::string, uint64_t>> chosen;
  for (const auto& [name, versions] : there) {
    for (const uint64_t version : options_.versions.For(name).Of(versions)) chosen.emplace(name, version);
  }
  for (const auto& [name, choice] : options_.versions.named) {
    for (const uint64_t version : choice.pinned) {
      if (!chosen.contains({name, version}))
        scan.skipped.push_back(
            {absl::StrCat(name, "/", version), "model_versions: it is to be served, and is not there"});
    }
  }
  std::vector<ModelFiles> wanted;
  absl::MutexLock lock(&mutex_);
  for (const ModelFiles& files : scan.models) {
    if (!chosen.contains({files.name, files.version})) continue;
    const auto entry = entries_.find(files.name);
    if (entry != entries_.end() && entry->second.unloaded) continue;
    if (wanted.size() < options_.max_models) {
      wanted.push_back(files);
    } else {
      scan.skipped.push_back(
          {absl::StrCat(files.name, "/", files.version),
           absl::StrCat("model_limits.max_models: ", options_.max_models, " others come before it")});
    }
  }
  return wanted;
}

absl::Status ModelRepository::Poll() {
  absl::StatusOr<FolderScan> scan = ScanFolder(options_.folder);
  if (!scan.ok()) {
    // A folder that is not there for a while, such as a network's, takes no model from service.
    if (folder_reason_ != scan.status().message())
      log_->warn("event=models_unreadable reason=\"{}\"", absl::CEscape(scan.status().message()));
    folder_reason_ = std::string(scan.status().message());
    return scan.status();
  }
  folder_reason_.clear();
  const std::vector<ModelFiles> wanted = Wanted(*scan);
  for (const ModelFiles& files : wanted) {
    if (stopping_.load()) return MakeError(v1::SHUTTING_DOWN, "the server stops");
    LoadOne(files);
  }
  UnloadGone(*scan, wanted);
  constants_.RemoveExpired();
  absl::MutexLock lock(&mutex_);
  for (const SkippedFiles& skipped : scan->skipped) {
    const bool known = std::any_of(skipped_.begin(), skipped_.end(),
                                   [&](const SkippedFiles& before) { return before.name == skipped.name; });
    if (!known)
      log_->warn("event=model_skipped name=\"{}\" reason=\"{}\"", skipped.name, absl::CEscape(skipped.reason));
  }
  skipped_ = std::move(scan->skipped);
  return absl::OkStatus();
}

void ModelRepository::LoadOne(const ModelFiles& files) {
  {
    absl::MutexLock lock(&mutex_);
    Slot& slot = entries_[files.name].versions[files.version];
    if (slot.tried == files.identity && SteadyNow() < slot.retry) return;
    if (slot.tried != files.identity) slot.periods = 1;
    slot.loading = true;
  }
  const absl::Time begin = SteadyNow();
  Control control;
  control.cancelled = &stopping_;
  control.deadline = begin + options_.max_time;
  control.account = session_->account();
  control.flow = FlowOf(*session_);
  absl::StatusOr<ServedModelPtr> model =
      LoadModel(files, options_.load, *engine_, threads_, session_, control, constants_);
  const bool loaded = model.ok();
  const std::string reason = loaded ? "" : ReasonOf(model.status());
  if (loaded) {
    log_->info("event=model_loaded name={} version={} device={} bytes={} micros={}", files.name, files.version,
               std::string((*model)->device->name()), files.bytes, absl::ToInt64Microseconds(SteadyNow() - begin));
  } else if (!stopping_.load()) {
    log_->warn("event=model_failed name={} version={} reason=\"{}\"", files.name, files.version, absl::CEscape(reason));
  }
  ServedModelPtr before;  // goes without the lock
  absl::MutexLock lock(&mutex_);
  Slot& slot = entries_[files.name].versions[files.version];
  slot.loading = false;
  slot.tried = files.identity;
  slot.reason = reason;
  slot.retry = absl::InfiniteFuture();
  if (!loaded && MayPass(model.status())) {
    slot.retry = SteadyNow() + slot.periods * options_.period;
    slot.periods = std::min(2 * slot.periods, kMaxPeriods);
  }
  if (!loaded) return;
  before = std::exchange(slot.model, *std::move(model));
}

// A version that is there, and is not wanted for a greater one, serves until that is loaded.
void ModelRepository::UnloadGone(const FolderScan& scan, const std::vector<ModelFiles>& wanted) {
  std::set<std::pair<std::string, uint64_t>> there, kept;
  for (const ModelFiles& files : scan.models) there.emplace(files.name, files.version);
  for (const ModelFiles& files : wanted) kept.emplace(files.name, files.version);
  const std::set<std::string> unreadable(scan.unreadable.begin(), scan.unreadable.end());
  std::vector<ServedModelPtr> gone;  // go without the lock
  absl::MutexLock lock(&mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    auto& [name, known] = *entry;
    if (unreadable.contains(name)) {
      ++entry;
      continue;
    }
    bool newest_serves = false, any_kept = false, any_there = false;
    for (const auto& [version, slot] : known.versions) {
      const bool keeps = kept.contains({name, version});
      any_kept |= keeps;
      newest_serves |= keeps && slot.model != nullptr;
    }
    const auto from = there.lower_bound({name, 0});
    any_there = from != there.end() && from->first == name;
    for (auto version = known.versions.begin(); version != known.versions.end();) {
      const std::pair<std::string, uint64_t> id(name, version->first);
      Slot& slot = version->second;
      const bool stays =
          kept.contains(id) || (there.contains(id) && any_kept && !newest_serves && slot.model != nullptr);
      if (stays) {
        ++version;
        continue;
      }
      if (slot.model != nullptr) {
        log_->info("event=model_unloaded name={} version={}", name, version->first);
        gone.push_back(std::move(slot.model));
      }
      version = known.versions.erase(version);
    }
    entry = known.versions.empty() && !(known.unloaded && any_there) ? entries_.erase(entry) : std::next(entry);
  }
}

absl::StatusOr<ServedModelPtr> ModelRepository::Find(absl::string_view name, absl::string_view version) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return UnknownModel(name, version);
  const std::map<uint64_t, Slot>& versions = entry->second.versions;
  if (version.empty()) {
    const auto newest =
        std::find_if(versions.rbegin(), versions.rend(), [](const auto& each) { return each.second.model != nullptr; });
    if (newest != versions.rend()) return newest->second.model;
  } else if (const auto found = versions.find(ModelVersion(version)); found != versions.end()) {
    if (found->second.model != nullptr) return found->second.model;
  }
  return UnknownModel(name, version);
}

std::vector<ServedModelPtr> ModelRepository::Loaded(absl::string_view name) const {
  std::vector<ServedModelPtr> models;
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [each, entry] : entries_) {
    if (!name.empty() && each != name) continue;
    for (const auto& [version, slot] : entry.versions) {
      if (slot.model != nullptr) models.push_back(slot.model);
    }
  }
  return models;
}

void ModelRepository::KeepOnly(const std::set<std::string, std::less<>>& tenants) const {
  for (const ServedModelPtr& model : Loaded("")) {
    if (model->sequences.has_value()) model->sequences->sequencer->KeepOnly(tenants);
  }
}

std::vector<ModelRepository::Row> ModelRepository::Index() const {
  std::vector<Row> rows;
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [name, entry] : entries_) {
    if (entry.unloaded) rows.push_back({name, "", Row::State::kUnavailable, "unloaded by an operator"});
    for (const auto& [version, slot] : entry.versions) {
      const Row::State state = slot.model != nullptr ? Row::State::kReady
                               : slot.loading        ? Row::State::kLoading
                                                     : Row::State::kUnavailable;
      rows.push_back({name, absl::StrCat(version), state, slot.reason});
    }
  }
  for (const SkippedFiles& skipped : skipped_)
    rows.push_back({skipped.name, "", Row::State::kUnavailable, skipped.reason});
  return rows;
}

}  // namespace kiln::server
