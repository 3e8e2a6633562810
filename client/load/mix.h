// What a load consists of: classes of requests, and the tenants that send them, one a line.
//
//   tenant NAME [token_file=FILE] [connections=1]
//   class NAME [graph=FILE] [rate=N] …
//
//   # A service's small calls beside a nightly job's large ones.
//   tenant web    token_file=web.token connections=4
//   tenant batch  token_file=batch.token
//   class lookup  tenant=web   graph=lookup.uop rate=2000 deadline=20ms
//   class retrain tenant=batch graph=step.uop   rate=20   arrivals=constant
//   class feed    tenant=batch kind=upload bytes=4M rate=5
//
// Names are letters, digits, '.', '_' and '-'. Fields that a line leaves out are as below. What begins with # is a
// comment.
#ifndef KILN_CLIENT_LOAD_MIX_H_
#define KILN_CLIENT_LOAD_MIX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/load/arrivals.h"

namespace kiln::load {

struct TenantSpec {
  std::string name;
  std::string token_file;  // empty: the credentials of the command line
  uint64_t connections = 1;
};

enum class Kind {
  kExecute,  // runs `graph`, by its hash; results come back by value
  kUpload,   // writes `bytes` to a buffer
  kCompile,  // has `graph` compiled: text in which {n} stands for another number each time
};

struct ClassSpec {
  std::string name;
  std::string where;  // "mix.load:3": for errors
  Kind kind = Kind::kExecute;
  std::string graph;
  std::string tenant;  // empty: the first, or the command line's credentials where there is none
  double rate = 100;   // a second
  Spacing spacing = Spacing::kPoisson;
  absl::Duration deadline = absl::InfiniteDuration();  // from when it was due
  uint64_t outstanding = 256;                          // more are not under way at once
  uint64_t bytes = 1 << 20;                            // of an upload
  bool inline_arguments = false;                       // sent with each call, not kept on the device
};

struct Mix {
  std::vector<TenantSpec> tenants;
  std::vector<ClassSpec> classes;

  double rate() const;  // of all classes
};

// `name` is the file's, for errors: INVALID_ARGUMENT, naming it, the line and the field.
absl::StatusOr<Mix> ParseMix(absl::string_view text, absl::string_view name);
// The same of one line, whose first word is there: "tenant …" or "class …". Added to `mix`.
absl::Status AddLine(absl::string_view line, absl::string_view where, Mix& mix);
// A class' name for a file's: "models/add.uop" is "add".
std::string NameOf(absl::string_view path);
// Once all is there: INVALID_ARGUMENT for names that are taken or missing, and for fields that do not go together.
absl::Status CheckMix(const Mix& mix);

}  // namespace kiln::load

#endif  // KILN_CLIENT_LOAD_MIX_H_
