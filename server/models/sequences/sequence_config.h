// What a model's config.pbtxt says of sequences: which of its outputs are state, that comes back as an input.
//
//   sequence_batching {
//     max_sequence_idle_microseconds: 60000000
//     oldest { max_candidate_sequences: 16 }
//     state { input_name: "cache" output_name: "next_cache" }
//   }
//
// The file and its words are Triton's, so that a folder made for Triton is read here. Such a file has much else (names,
// shapes, instances), which the model itself or the server's flags say here: that is not looked at. But what stands in
// sequence_batching and is not done is refused by its name, for it would be done wrong.
#ifndef KILN_SERVER_MODELS_SEQUENCES_SEQUENCE_CONFIG_H_
#define KILN_SERVER_MODELS_SEQUENCES_SEQUENCE_CONFIG_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kiln::server {

struct SequenceConfig {
  struct State {
    std::string input, output;
  };
  static constexpr size_t kMaxStates = 256;
  static constexpr size_t kMaxSequences = 4096;

  std::vector<State> states;  // at least one; no input or output twice
  // Of one tenant at a time.
  size_t max_sequences = 16;
  // A sequence ends by itself that nobody has asked for so long.
  absl::Duration idle = absl::Seconds(60);
  // How long a run may wait for sequences that are expected soon (sequencer.h).
  absl::Duration queue_delay = absl::Milliseconds(1);
};

// Of the text's sequence_batching, which stands at its top; none if it has none. All else is not looked at.
// BAD_ARGUMENT where it is no message, or a value is out of range; NOT_IMPLEMENTED. Their `field` is as
// "sequence_batching.state.input_name".
absl::StatusOr<std::optional<SequenceConfig>> ParseSequenceConfig(absl::string_view text);

// Of a file; an empty path is none. GRAPH_TOO_LARGE, limit "config.pbtxt", if it has more than 1 MiB; UNAVAILABLE if it
// cannot be read, which may pass. Blocks.
absl::StatusOr<std::optional<SequenceConfig>> ReadSequenceConfig(const std::string& path);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SEQUENCES_SEQUENCE_CONFIG_H_
