#include "server/engine/program_key.h"

#include <cstdint>
#include <string>

#include "base/blake3.h"

namespace kiln::server {
namespace {

// Fields are hashed with their lengths before them, so that no two lists of
// fields run together into the same bytes.
class FieldHasher {
 public:
  FieldHasher& Add(absl::string_view field) {
    const uint64_t length = field.size();
    blake3_.Update(&length, sizeof(length));
    blake3_.Update(field);
    return *this;
  }
  Digest Finish() const { return Digest{blake3_.Finish()}; }

 private:
  Blake3 blake3_;
};

}  // namespace

Digest TargetFingerprint(const v1::Target& target) {
  FieldHasher hasher;
  hasher.Add("target").Add(v1::Target::Kind_Name(target.kind())).Add(target.triple()).Add(target.arch());
  for (const std::string& feature : target.features()) hasher.Add(feature);
  return hasher.Finish();
}

Digest ProgramKey(const Digest& graph_hash, const Digest& target, const compiler::Options& options,
                  absl::string_view device) {
  FieldHasher hasher;
  hasher.Add("program").Add(graph_hash.view()).Add(target.view()).Add(options.Fingerprint());
  return hasher.Add(compiler::kCompilerVersion).Add(device).Finish();
}

}  // namespace kiln::server
