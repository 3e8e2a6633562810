#include "server/engine/programs/program_key.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "base/blake3.h"
#include "compiler/options/version.h"

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
  FieldHasher& Add(uint64_t number) {
    char bytes[sizeof(number)];
    for (char& byte : bytes) {
      byte = static_cast<char>(number & 0xff);
      number >>= 8;
    }
    return Add(absl::string_view(bytes, sizeof(bytes)));
  }
  Digest Finish() const { return blake3_.Finish(); }

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

Digest PlaceOf(const Digest& target, absl::string_view device) {
  FieldHasher hasher;
  return hasher.Add("place").Add(target.view()).Add(compiler::kCompilerVersion).Add(device).Finish();
}

Digest DigestOf(const compiler::Options& options) {
  FieldHasher hasher;
  return hasher.Add("options").Add(options.Fingerprint()).Finish();
}

Digest ProgramKey(const TrustDomain& domain, const Digest& graph_hash, const Digest& place, const Digest& options) {
  // All of one size, so that none runs into the next; one piece, which takes a third of the time of four.
  std::array<uint8_t, 4 * sizeof(Digest::bytes)> bytes;
  auto* end = bytes.data();
  for (const Digest* part : {&domain, &graph_hash, &place, &options})
    end = std::copy(part->bytes.begin(), part->bytes.end(), end);
  return Blake3Of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Digest StoredKey(const TrustDomain& domain, const Digest& graph_hash, const Digest& target,
                 const v1::Target::Tuning& tuning, absl::string_view options, absl::string_view limits,
                 absl::string_view compiler) {
  FieldHasher hasher;
  hasher.Add("stored program").Add(domain.view()).Add(graph_hash.view()).Add(target.view());
  hasher.Add(tuning.vector_bytes()).Add(tuning.vector_registers()).Add(tuning.cores());
  hasher.Add(tuning.l1_bytes()).Add(tuning.l2_bytes()).Add(tuning.l3_bytes());
  const v1::Target::Tuning::Core& core = tuning.core();
  hasher.Add(core.vector_bytes());
  for (const float figure : {core.fmas_per_cycle(), core.fma_latency(), core.loads_per_cycle(), core.l2_load_cycles(),
                             core.l2_store_cycles(), core.far_bytes_per_cycle(), core.gather_cycles()}) {
    hasher.Add(absl::bit_cast<uint32_t>(figure));
  }
  return hasher.Add(options).Add(limits).Add(compiler).Finish();
}

std::string LimitsText(const compiler::Limits& limits) {
  // One name for each field: a new one does not compile until it is here.
  const auto& [nodes, bytes, depth, stack, kernels, instructions, lanes, items, groups, local, registers, native,
               iteration, item, work] = limits;
  return absl::StrCat("nodes=", nodes, " bytes=", bytes, " depth=", depth, " stack=", stack, " kernels=", kernels,
                      " instructions=", instructions, " lanes=", lanes, " items=", items, " groups=", groups,
                      " local=", local, " registers=", registers, " native=", native, " iteration=", iteration,
                      " item=", item, " work=", work);
}

Digest RecordingKey(absl::Span<const Digest> programs, const v1::RecordSequenceRequest& request) {
  FieldHasher hasher;
  hasher.Add("recording");
  std::vector<const v1::RecordedArgument*> arguments;
  for (const v1::RecordedStep& step : request.steps()) {
    arguments.clear();
    for (const v1::RecordedArgument& argument : step.arguments()) arguments.push_back(&argument);
    std::sort(arguments.begin(), arguments.end(), [](const auto* a, const auto* b) { return a->slot() < b->slot(); });
    hasher.Add(programs[step.program()].view()).Add(arguments.size());
    for (const v1::RecordedArgument* argument : arguments) {
      hasher.Add(argument->slot()).Add(static_cast<uint64_t>(argument->value_case()));
      switch (argument->value_case()) {
        case v1::RecordedArgument::kMemory:
          hasher.Add(argument->memory().buffer()).Add(argument->memory().offset());
          break;
        case v1::RecordedArgument::kShards:
          hasher.Add(static_cast<uint64_t>(argument->shards().memory_size()));
          for (const v1::RecordedMemory& share : argument->shards().memory())
            hasher.Add(share.buffer()).Add(share.offset());
          break;
        case v1::RecordedArgument::kInteger: hasher.Add(argument->integer()); break;
        case v1::RecordedArgument::kConstant: hasher.Add(static_cast<uint64_t>(argument->constant())); break;
        case v1::RecordedArgument::VALUE_NOT_SET: break;
      }
    }
  }
  return hasher.Finish();
}

}  // namespace kiln::server
