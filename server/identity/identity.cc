#include "server/identity/identity.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

// Then all are forgotten.
constexpr size_t kMaxChecked = 4096;

Identity::NameSet NamesInBoth(const Tenants& before, const Tenants& after) {
  Identity::NameSet old, both;
  for (const TenantPtr& tenant : before.all()) old.insert(tenant->name);
  for (const TenantPtr& tenant : after.all()) {
    if (old.contains(tenant->name)) both.insert(tenant->name);
  }
  return both;
}

}  // namespace

absl::StatusOr<Tenants> ReadTenants(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return Tenants::Parse(text, ReadKeys);
}

absl::StatusOr<std::unique_ptr<Identity>> Identity::Open(const std::string& path, std::shared_ptr<spdlog::logger> log,
                                                         absl::Duration period, ApplyFn apply, ReloadedFn reloaded) {
  KILN_ASSIGN_OR_RETURN(Tenants tenants, ReadTenants(path));
  if (apply != nullptr) KILN_RETURN_IF_ERROR(apply(tenants.all(), {}));
  log->info("event=tenants file=\"{}\" tenants={}", absl::CEscape(path), tenants.size());
  return std::unique_ptr<Identity>(
      new Identity(path, std::move(log), period, std::move(apply), std::move(reloaded), std::move(tenants)));
}

Identity::Identity(std::string path, std::shared_ptr<spdlog::logger> log, absl::Duration period, ApplyFn apply,
                   ReloadedFn reloaded, Tenants tenants)
    : path_(std::move(path)),
      log_(std::move(log)),
      period_(period),
      apply_(std::move(apply)),
      reloaded_(std::move(reloaded)),
      seen_(Look(tenants)),
      read_at_(SteadyNow()),
      tenants_(std::make_shared<const Tenants>(std::move(tenants))) {
  {
    absl::MutexLock lock(&mutex_);
    NoteInForce({});
  }
  watch_ = std::thread([this] { WatchUntilStopped(); });
}

Identity::~Identity() {
  bell_.Ring();
  watch_.join();
}

absl::StatusOr<TenantPtr> Identity::Identify(const Credentials& credentials, absl::Time now, PeerFn peer) {
  const absl::string_view token = BearerToken(credentials.authorization);
  const bool signed_by_issuer = LooksLikeJwt(token);
  const Sha256 digest = signed_by_issuer ? Sha256Of(token) : Sha256();
  std::shared_ptr<const Tenants> tenants;
  {
    absl::MutexLock lock(&mutex_);
    tenants = tenants_;
    if (const auto found = checked_.find(digest); signed_by_issuer && found != checked_.end()) {
      if (now < found->second.until) return found->second.tenant;
      checked_.erase(found);
    }
    if (signed_by_issuer) KILN_RETURN_IF_ERROR(refused_.Check(digest, peer(), SteadyNow()));
  }
  absl::StatusOr<Identified> known = tenants->Identify(credentials, now);
  if (!known.ok()) {
    absl::MutexLock lock(&mutex_);
    if (signed_by_issuer && tenants_ == tenants) refused_.Note(digest, peer(), known.status(), SteadyNow());
    return known.status();
  }
  Identified& identified = *known;
  if (signed_by_issuer) {
    absl::MutexLock lock(&mutex_);
    if (checked_.size() >= kMaxChecked) checked_.clear();
    if (tenants_ == tenants) checked_.emplace(digest, identified);
  }
  return std::move(identified.tenant);
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
  absl::Status status = ReadAgain();
  if (reloaded_ != nullptr) reloaded_(status);
  return status;
}

absl::Status Identity::ReadAgain() {
  absl::MutexLock reload(&reload_mutex_);
  // First, so that a change while the files are read is seen the next time.
  std::shared_ptr<const Tenants> before;
  {
    absl::MutexLock lock(&mutex_);
    before = tenants_;
  }
  std::string seen = Look(*before);
  read_at_ = SteadyNow();
  auto tenants = ReadTenants(path_);
  NameSet stayed;
  if (tenants.ok()) stayed = NamesInBoth(*before, *tenants);
  if (tenants.ok() && apply_ != nullptr) {
    if (absl::Status applied = apply_(tenants->all(), stayed); !applied.ok()) tenants = std::move(applied);
  }
  if (!tenants.ok()) {
    seen_ = std::move(seen);
    log_->error("event=tenants_refused file=\"{}\" reason=\"{}\" in_force=\"as before\"", absl::CEscape(path_),
                absl::CEscape(tenants.status().message()));
    return tenants.status();
  }
  seen_ = Look(*tenants);
  log_->info("event=tenants file=\"{}\" tenants={} reloaded=true", absl::CEscape(path_), tenants->size());
  absl::MutexLock lock(&mutex_);
  tenants_ = std::make_shared<const Tenants>(*std::move(tenants));
  NoteInForce(stayed);
  checked_.clear();
  refused_.Forget();
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
  for (;;) {
    if (bell_.Wait(period_)) return;
    std::shared_ptr<const Tenants> tenants;
    {
      absl::MutexLock lock(&mutex_);
      tenants = tenants_;
    }
    bool changed;
    {
      absl::MutexLock reload(&reload_mutex_);
      changed = Look(*tenants) != seen_ || SteadyNow() - read_at_ >= tenants->refresh();
    }
    if (changed) Reload().IgnoreError();  // it is logged
  }
}

}  // namespace kiln::server
