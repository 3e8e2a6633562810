// The models of a folder, loaded, and kept as the folder is.
//
// One thread polls the folder every few seconds and loads what is new, one after the other. A version whose files
// change is loaded beside the one that runs, and takes its place once it is ready; if that fails, the one before stays
// and the index says why. What is gone from the folder is unloaded. Whoever runs a model holds it, so no run notices.
//
// Programs and weights are those of a session without a client, whose account stands among the tenants' as kOwner.
#ifndef KILN_SERVER_MODELS_REPOSITORY_H_
#define KILN_SERVER_MODELS_REPOSITORY_H_

#include <spdlog/fwd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/engine/engine.h"
#include "server/models/folder.h"
#include "server/models/load.h"
#include "server/models/sequences/wake_ups.h"
#include "server/models/served_model.h"
#include "server/models/shared_constants.h"
#include "server/models/version_policy.h"

namespace kiln::server {

// Safe from any thread, but for Poll().
class ModelRepository {
 public:
  // No tenant can be called so.
  static constexpr char kOwner[] = "(models)";

  struct Options {
    std::string folder;
    LoadSettings load;
    VersionPolicy versions;
    size_t max_models = 256;                       // versions that are loaded
    absl::Duration max_time = absl::Seconds(300);  // of one load
    absl::Duration period = absl::Seconds(2);      // between two polls
  };

  // `engine` outlives it.
  ModelRepository(Options options, Engine* engine, std::shared_ptr<spdlog::logger> log);
  ~ModelRepository();
  ModelRepository(const ModelRepository&) = delete;
  ModelRepository& operator=(const ModelRepository&) = delete;

  // Begins to poll the folder, on a thread of its own.
  void Start();
  // Ends that, and the load that is under way; what is loaded stays. Blocks until it has ended.
  void Stop();
  // Blocks until the folder has been gone through once, or Stop().
  void WaitUntilReady() { ready_.WaitForNotification(); }
  bool ready() const { return ready_.HasBeenNotified() && !stopping_.load(); }

  // One poll, on this thread: before Start(), or instead of it. Blocks for all loads. An error if the folder could not
  // be read, or the server stops; what a model lacks is in Index().
  absl::Status Poll();

  // An empty version is the greatest that is loaded. UNKNOWN_MODEL.
  absl::StatusOr<ServedModelPtr> Find(absl::string_view name, absl::string_view version) const;
  // All that are loaded of a name, or of all for an empty one, in order.
  std::vector<ServedModelPtr> Loaded(absl::string_view name) const;
  const VersionPolicy& versions() const { return options_.versions; }
  absl::string_view folder() const { return options_.folder; }

  // Forgets what models keep for tenants that are none of these (sequencer.h): those that have stayed (identity.h).
  void KeepOnly(const std::set<std::string, std::less<>>& tenants) const;

  struct Row {
    std::string name, version;
    enum class State : unsigned char { kReady, kLoading, kUnavailable } state;
    std::string reason;
  };
  std::vector<Row> Index() const;

  // For operators; called back once, on the polling thread, or here if it is refused. Of one name: loads what is not
  // loaded, also what failed before; UNKNOWN_MODEL if the folder has none, else the first reason for what could not
  // be loaded. Unload() lasts until Load().
  using Done = absl::AnyInvocable<void(absl::Status)>;
  void Load(std::string name, Done done);
  void Unload(std::string name, Done done);

  // Tensors of weights in memory. Not while a poll is under way.
  size_t constants() const { return constants_.count(); }

 private:
  struct Slot {
    std::string tried;     // the identity of the files that were loaded last, or could not be
    ServedModelPtr model;  // null: none is
    bool loading = false;
    std::string reason;                         // why `tried` could not be loaded
    absl::Time retry = absl::InfiniteFuture();  // of `tried`, where that may pass
    int periods = 1;                            // until then
  };
  struct Entry {
    std::map<uint64_t, Slot> versions;
    bool unloaded = false;  // by an operator
  };
  struct Job {
    std::string name;
    bool load = false;
    Done done;
  };

  void Work();
  absl::Status Run(const Job& job);
  void Ask(Job job);
  // Of the versions there are, those that are to be loaded. What is left out for a limit, or pinned and not there, is
  // among the skipped then.
  std::vector<ModelFiles> Wanted(FolderScan& scan) const;
  void LoadOne(const ModelFiles& files);
  void UnloadGone(const FolderScan& scan, const std::vector<ModelFiles>& wanted);

  const Options options_;
  Engine* const engine_;
  const std::shared_ptr<spdlog::logger> log_;
  const SessionPtr session_;
  SequencerThreads threads_;   // outlive the models
  SharedConstants constants_;  // the polling thread's
  std::string folder_reason_;  // the same: why it could not be read
  std::atomic<bool> stopping_{false};
  absl::Notification ready_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<SkippedFiles> skipped_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Bell bell_;
  std::thread thread_;
};

// UNKNOWN_MODEL; `version` may be empty.
absl::Status UnknownModel(absl::string_view name, absl::string_view version);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_REPOSITORY_H_
