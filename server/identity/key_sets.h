// What the issuers that are asked by URL have answered: the last good key set of each, and what was wrong since.
//
// A server of keys is another's, and may be away for hours. If its answer were waited for whenever the file of tenants
// is read, nobody could be locked out meanwhile. So the file is read with the keys that are here, and whoever asks for
// new ones does so at another time.
#ifndef KILN_SERVER_IDENTITY_KEY_SETS_H_
#define KILN_SERVER_IDENTITY_KEY_SETS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/identity/key_source.h"

namespace kiln::server {

// Safe from any thread.
class KeySets {
 public:
  // ReadKeys (key_source.h), or a test's; called by several threads at once.
  using ReadKeysFn = std::function<absl::StatusOr<std::string>(const KeySource&)>;

  explicit KeySets(ReadKeysFn read) : read_(std::move(read)) {}

  // The text of a source's key set: what it answered last, if that was one. BAD_ARGUMENT, with the field "tenants", if
  // it never answered so. Never blocks for another server.
  absl::StatusOr<std::string> Of(const KeySource& source) const;

  // Of one that did not answer when it was asked last.
  struct Fault {
    KeySource source;
    absl::Status why;
    bool has_keys;  // of before
  };
  struct Asked {
    bool changed = false;  // what Of() says of any of them
    std::vector<Fault> faults;
  };
  // Asks all of them at once, and forgets all others. Blocks until each has answered, or had the time to
  // (kKeyTimeout). One caller at a time.
  Asked Ask(const std::vector<KeySource>& sources);

 private:
  struct Row {
    std::string keys;  // empty: it never had any
    absl::Status fault;
  };

  const ReadKeysFn read_;
  mutable absl::Mutex mutex_;
  std::map<KeySource, Row> rows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_KEY_SETS_H_
