// The name under which a program is kept, and a sequence of them.
//
// key = BLAKE3(domain ‖ graph hash ‖ target fingerprint ‖ options ‖ compiler version ‖
// device). All but the device decide what code there is; the device is where
// that code is loaded. With no device it is the code's key, of which devices of one
// target share what is compiled. The graph's own hash (base/graph/graph_hash.h) does not depend
// on how its nodes are numbered or repeated, so nor does the key.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_KEY_H_
#define KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_KEY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/digest.h"
#include "compiler/options/options.h"
#include "kiln/v1/kernel_service.pb.h"
#include "kiln/v1/target.pb.h"
#include "server/engine/memory/trust_domain.h"

namespace kiln::server {

// What code may rely on: kind, triple, architecture and required features.
// Tuning is left out: it changes speed, not meaning. Made once per device.
Digest TargetFingerprint(const v1::Target& target);

// What of a device counts, by TargetFingerprint and its name, and the compiler. Made once per device.
Digest PlaceOf(const Digest& target, absl::string_view device);

Digest DigestOf(const compiler::Options& options);

// Of a PlaceOf and a DigestOf. Each warm call makes one: it is 128 bytes of BLAKE3.
Digest ProgramKey(const TrustDomain& domain, const Digest& graph_hash, const Digest& place, const Digest& options);

// The same for what is kept on disk, where entries outlive the server's settings: it is
// of code, not of where the code is loaded, so no device is in it. But tuning is, since
// a stored program cannot be as good as one compiled for this machine; and the limits,
// since a server may only run what it would let in itself.
Digest StoredKey(const TrustDomain& domain, const Digest& graph_hash, const Digest& target,
                 const v1::Target::Tuning& tuning, absl::string_view options, absl::string_view limits,
                 absl::string_view compiler);

// Every limit, by name.
std::string LimitsText(const compiler::Limits& limits);

// What a recording is: which steps run which programs, by their keys, on what. Neither
// how the request numbers its programs nor the order of a step's arguments counts.
// Each step's program is one of `programs`.
Digest RecordingKey(absl::Span<const Digest> programs, const v1::RecordSequenceRequest& request);

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_KEY_H_
