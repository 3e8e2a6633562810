#include "server/identity/identity.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

// Then one is forgotten for each that is new.
constexpr size_t kMaxChecked = 4096;

Identity::NameSet NamesOf(const Tenants& tenants) {
  Identity::NameSet names;
  for (const TenantPtr& tenant : tenants.all()) names.insert(tenant->name);
  return names;
}

}  // namespace

absl::StatusOr<Tenants> ReadTenants(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return Tenants::Parse(text, ReadKeys);
}

absl::StatusOr<std::unique_ptr<Identity>> Identity::Open(const std::string& path, std::shared_ptr<spdlog::logger> log,
                                                         absl::Duration period, Hooks hooks, Tenants::ReadKeysFn read) {
  std::unique_ptr<Identity> self(new Identity(path, std::move(log), period, std::move(hooks), std::move(read)));
  KILN_RETURN_IF_ERROR(self->Start());
  return self;
}

Identity::Identity(std::string path, std::shared_ptr<spdlog::logger> log, absl::Duration period, Hooks hooks,
                   Tenants::ReadKeysFn read)
    : path_(std::move(path)),
      log_(std::move(log)),
      period_(period),
      hooks_(std::move(hooks)),
      read_(std::move(read)),
      keys_(read_) {}

absl::Status Identity::Start() {
  auto tenants = ReadFileNow();
  // Nobody is served yet, so nobody waits.
  if (tenants.ok() && Ask(tenants->sources())) tenants = ReadFileNow();
  if (!tenants.ok()) return tenants.status();
  if (hooks_.apply != nullptr) KILN_RETURN_IF_ERROR(hooks_.apply(tenants->all(), {}));
  log_->info("event=tenants file=\"{}\" tenants={}", absl::CEscape(path_), tenants->size());
  {
    absl::MutexLock reload(&reload_mutex_);
    seen_ = Look(*tenants);
  }
  {
    absl::MutexLock lock(&mutex_);
    tenants_ = std::make_shared<const Tenants>(*std::move(tenants));
    NoteInForce({});
  }
  watch_ = std::thread([this] { WatchUntilStopped(); });
  asks_ = std::thread([this] { AskUntilStopped(); });
  return absl::OkStatus();
}

Identity::~Identity() {
  stopping_.store(true);
  bell_.Ring();
  ask_.Ring();
  if (watch_.joinable()) watch_.join();
  if (asks_.joinable()) asks_.join();
}

absl::StatusOr<Tenants> Identity::ReadFileNow() const {
  KILN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path_));
  const auto read = [this](const KeySource& source) { return source.url.empty() ? read_(source) : keys_.Of(source); };
  return Tenants::Parse(text, read, Tenants::WithoutKeys::kHasNoTokens);
}

std::shared_ptr<const Tenants> Identity::InForce() {
  absl::MutexLock lock(&mutex_);
  return tenants_;
}

absl::StatusOr<Identified> Identity::Identify(const Credentials& credentials, absl::Time now,
                                              std::optional<PeerFn> peer) {
  const absl::string_view token = BearerToken(credentials.authorization);
  const bool signed_by_issuer = LooksLikeJwt(token);
  const Sha256 digest = signed_by_issuer ? Sha256Of(token) : Sha256();
  std::shared_ptr<const Tenants> tenants;
  {
    absl::MutexLock lock(&mutex_);
    tenants = tenants_;
    if (const auto found = checked_.find(digest); signed_by_issuer && found != checked_.end()) {
      if (now < found->second.until) return found->second;
      checked_.erase(found);
    }
    if (signed_by_issuer && peer.has_value()) KILN_RETURN_IF_ERROR(refused_.Check(digest, (*peer)(), SteadyNow()));
  }
  absl::StatusOr<Identified> known = tenants->Identify(credentials, now);
  if (!known.ok()) {
    absl::MutexLock lock(&mutex_);
    if (signed_by_issuer && peer.has_value() && tenants_ == tenants)
      refused_.Note(digest, (*peer)(), known.status(), SteadyNow());
    return known.status();
  }
  Identified& identified = *known;
  if (signed_by_issuer) {
    absl::MutexLock lock(&mutex_);
    if (checked_.size() >= kMaxChecked) checked_.erase(checked_.begin());  // any: a flood of one caller's is not all
    if (tenants_ == tenants) checked_.emplace(digest, identified);
  }
  return identified;
}

bool Identity::IsInForce(const TenantPtr& tenant) {
  absl::MutexLock lock(&mutex_);
  return in_force_.contains(tenant);
}

void Identity::NoteInForce(const NameSet& stayed) {
  std::erase_if(in_force_, [&stayed](const std::weak_ptr<const Tenant>& each) {
    const TenantPtr tenant = each.lock();
    return tenant == nullptr || !stayed.contains(tenant->name);
  });
  in_force_.insert(tenants_->all().begin(), tenants_->all().end());
}

bool Identity::HasUnixUser(uint32_t user) {
  absl::MutexLock lock(&mutex_);
  return tenants_->HasUnixUser(user);
}

absl::Status Identity::Reload() {
  absl::Status status = ReloadFiles();
  ask_.Ring();
  return status;
}

absl::Status Identity::ReloadFiles() {
  absl::Status status;
  {
    absl::MutexLock reload(&reload_mutex_);
    status = ReadAgain();
    if (status.ok()) {
      log_->info("event=tenants file=\"{}\" tenants={} reloaded=true", absl::CEscape(path_), InForce()->size());
    } else {
      log_->error("event=tenants_refused file=\"{}\" reason=\"{}\" in_force=\"as before\"", absl::CEscape(path_),
                  absl::CEscape(status.message()));
    }
  }
  if (hooks_.reloaded != nullptr) hooks_.reloaded(status);
  return status;
}

absl::Status Identity::ReadAgain() {
  // First, so that a change while the files are read is seen the next time.
  const std::shared_ptr<const Tenants> before = InForce();
  seen_ = Look(*before);
  KILN_ASSIGN_OR_RETURN(Tenants tenants, ReadFileNow());
  const NameSet now = NamesOf(tenants);
  NameSet stayed, gone;
  for (const std::string& name : NamesOf(*before)) (now.contains(name) ? stayed : gone).insert(name);
  if (hooks_.apply != nullptr) KILN_RETURN_IF_ERROR(hooks_.apply(tenants.all(), stayed));
  seen_ = Look(tenants);
  {
    absl::MutexLock lock(&mutex_);
    tenants_ = std::make_shared<const Tenants>(std::move(tenants));
    NoteInForce(stayed);
    checked_.clear();
    refused_.Forget();
    version_.fetch_add(1);
  }
  if (hooks_.in_force != nullptr) hooks_.in_force(now, gone);
  return absl::OkStatus();
}

std::string Identity::Look(const Tenants& tenants) const {
  std::string seen;
  std::vector<std::string> paths = tenants.files();
  paths.push_back(path_);
  for (const std::string& path : paths) {
    struct stat info = {};
    if (stat(path.c_str(), &info) != 0) {
      absl::StrAppend(&seen, "none;");
    } else {
      absl::StrAppend(&seen, info.st_ino, ",", info.st_size, ",", info.st_mtim.tv_sec, ",", info.st_mtim.tv_nsec, ";");
    }
  }
  return seen;
}

void Identity::WatchUntilStopped() {
  while (!bell_.Wait(period_)) {
    const std::shared_ptr<const Tenants> tenants = InForce();
    bool changed;
    {
      absl::MutexLock reload(&reload_mutex_);
      changed = Look(*tenants) != seen_;
    }
    if (changed) Reload().IgnoreError();  // it is logged
  }
}

bool Identity::Ask(const std::vector<KeySource>& sources) {
  const KeySets::Asked asked = keys_.Ask(sources);
  for (const KeySets::Fault& fault : asked.faults) {
    log_->error("event=issuer_unanswered url=\"{}\" reason=\"{}\" in_force=\"{}\"", absl::CEscape(fault.source.url),
                absl::CEscape(fault.why.message()), fault.has_keys ? "its keys of before" : "none of its tokens");
  }
  if (hooks_.unanswered != nullptr && !asked.faults.empty()) hooks_.unanswered(asked.faults.size());
  return asked.changed;
}

void Identity::AskUntilStopped() {
  for (;;) {
    ask_.Wait(InForce()->refresh());
    if (stopping_.load()) return;
    if (Ask(InForce()->sources())) ReloadFiles().IgnoreError();  // it is logged
  }
}

}  // namespace kiln::server
