#include "server/models/sequences/sequence_config.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "inference/model_config.pb.h"

namespace kiln::server {
namespace {

using inference::ModelSequenceBatching;

constexpr absl::string_view kFile = "config.pbtxt";  // as a field: all of it
constexpr absl::string_view kBlock = "sequence_batching";
constexpr size_t kMaxConfigBytes = 1 << 20;  // the operator's own; what is long in it are others' settings
constexpr int kMaxDepth = 32;
constexpr int64_t kMaxIdleMicros = int64_t{7} * 24 * 3600 * 1'000'000;
constexpr int64_t kMaxDelayMicros = 1'000'000;
constexpr size_t kMaxShown = 200;

absl::Status Refused(v1::ErrorCode code, absl::string_view field, absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(std::string(field));
  return MakeError(std::move(detail), absl::StrCat(field == kFile ? "" : "config.pbtxt: ", field, ": ", what));
}

// Keeps the first fault and its place.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty())
      text = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message.substr(0, kMaxShown));
  }
  std::string text;
};

// The block of the top-level field "sequence_batching", with its braces; empty if there is none. The other fields are
// Triton's and are not parsed: protobuf's text parser cannot skip an unknown field that holds a list.
absl::StatusOr<absl::string_view> BlockOf(absl::string_view text) {
  absl::string_view block;
  size_t depth = 0, begin = 0;
  bool named = false, inside = false;  // the name has come; the block is open
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '"' || c == '\'') {
      for (++at; at < text.size() && text[at] != c; ++at) at += text[at] == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[' || c == '<') {
      if (named && c != '{') break;
      if (depth++ == 0 && named) {
        inside = true;
        begin = at;
      }
      named = false;
    } else if (c == '}' || c == ']' || c == '>') {
      if (depth == 0)
        return Refused(v1::BAD_ARGUMENT, kFile, absl::StrCat("byte ", at, ": closes what was not opened"));
      if (--depth == 0 && std::exchange(inside, false)) {
        if (!block.empty()) return Refused(v1::BAD_ARGUMENT, kBlock, "comes twice");
        block = text.substr(begin, at + 1 - begin);
      }
    } else if (absl::ascii_isalpha(c)) {
      const size_t word = at;
      while (at + 1 < text.size() && (absl::ascii_isalnum(text[at + 1]) || text[at + 1] == '_')) ++at;
      named = depth == 0 && text.substr(word, at + 1 - word) == kBlock;
    }
  }
  if (inside || named) return Refused(v1::BAD_ARGUMENT, kBlock, "is not a message from { to }");
  return block;
}

// The first field that is set, as "oldest.preferred_batch_size"; empty if none is. Messages of this depth: three.
std::string FirstSet(const google::protobuf::Message& message) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->is_repeated() || field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE)
      return field->name();
    const std::string inner = FirstSet(message.GetReflection()->GetMessage(message, field));
    if (!inner.empty()) return absl::StrCat(field->name(), ".", inner);
  }
  return "";
}

// What is left of it once all is taken away that is served, or that the model says better: types and sizes.
absl::Status CheckServed(ModelSequenceBatching asked) {
  for (ModelSequenceBatching::State& state : *asked.mutable_state()) {
    for (const auto& initial : state.initial_state()) {
      // Each sequence begins with zeros.
      if (initial.state_data_case() == ModelSequenceBatching::InitialState::kDataFile)
        return Refused(v1::NOT_IMPLEMENTED, "sequence_batching.state.initial_state.data_file",
                       "a sequence begins with zeros; write zero_data: true, or leave it out");
    }
    if (state.use_growable_memory())
      return Refused(v1::NOT_IMPLEMENTED, "sequence_batching.state.use_growable_memory",
                     "a state has one size; leave it out");
  }
  asked.clear_state();
  asked.clear_max_sequence_idle_microseconds();
  if (asked.has_oldest()) {
    asked.mutable_oldest()->clear_max_candidate_sequences();
    asked.mutable_oldest()->clear_max_queue_delay_microseconds();
  }
  const std::string left = FirstSet(asked);
  if (left.empty()) return absl::OkStatus();
  return Refused(v1::NOT_IMPLEMENTED, absl::StrCat("sequence_batching.", left),
                 "not served; states go from one request to the next by sequence_batching.state alone");
}

absl::Status AddStates(const ModelSequenceBatching& asked, SequenceConfig& config) {
  constexpr char kField[] = "sequence_batching.state";
  if (asked.state().empty()) return Refused(v1::BAD_ARGUMENT, kField, "there is none; name the input and the output");
  if (asked.state_size() > static_cast<int>(SequenceConfig::kMaxStates))
    return Refused(v1::BAD_ARGUMENT, kField, absl::StrCat("there are more than ", SequenceConfig::kMaxStates));
  std::set<std::string> inputs, outputs;
  for (const ModelSequenceBatching::State& state : asked.state()) {
    if (!inputs.insert(state.input_name()).second)
      return Refused(v1::BAD_ARGUMENT, absl::StrCat(kField, ".input_name"),
                     absl::StrCat("\"", absl::CHexEscape(state.input_name().substr(0, kMaxShown)), "\" comes twice"));
    if (!outputs.insert(state.output_name()).second)
      return Refused(v1::BAD_ARGUMENT, absl::StrCat(kField, ".output_name"),
                     absl::StrCat("\"", absl::CHexEscape(state.output_name().substr(0, kMaxShown)), "\" comes twice"));
    config.states.push_back({state.input_name(), state.output_name()});
  }
  return absl::OkStatus();
}

// 0, which the text may say or leave out, is the default.
template <typename Number>
absl::Status Take(Number asked, int64_t most, absl::string_view field, int64_t& value) {
  if (asked == 0) return absl::OkStatus();
  if (asked < 0 || static_cast<uint64_t>(asked) > static_cast<uint64_t>(most))
    return Refused(v1::BAD_ARGUMENT, field, absl::StrCat(asked, " is not from 1 to ", most));
  value = static_cast<int64_t>(asked);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<SequenceConfig>> ParseSequenceConfig(absl::string_view text) {
  KILN_ASSIGN_OR_RETURN(const absl::string_view block, BlockOf(text));
  if (block.empty()) return std::nullopt;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxDepth);
  ModelSequenceBatching asked;
  if (!parser.ParseFromString(std::string(block.substr(1, block.size() - 2)), &asked))
    return Refused(v1::BAD_ARGUMENT, kBlock, error.text);
  KILN_RETURN_IF_ERROR(CheckServed(asked));
  SequenceConfig config;
  KILN_RETURN_IF_ERROR(AddStates(asked, config));
  auto sequences = static_cast<int64_t>(config.max_sequences);
  int64_t idle = absl::ToInt64Microseconds(config.idle), delay = absl::ToInt64Microseconds(config.queue_delay);
  KILN_RETURN_IF_ERROR(Take(asked.oldest().max_candidate_sequences(), SequenceConfig::kMaxSequences,
                            "sequence_batching.oldest.max_candidate_sequences", sequences));
  KILN_RETURN_IF_ERROR(Take(asked.max_sequence_idle_microseconds(), kMaxIdleMicros,
                            "sequence_batching.max_sequence_idle_microseconds", idle));
  KILN_RETURN_IF_ERROR(Take(asked.oldest().max_queue_delay_microseconds(), kMaxDelayMicros,
                            "sequence_batching.oldest.max_queue_delay_microseconds", delay));
  config.max_sequences = static_cast<size_t>(sequences);
  config.idle = absl::Microseconds(idle);
  config.queue_delay = absl::Microseconds(delay);
  return config;
}

absl::StatusOr<std::optional<SequenceConfig>> ReadSequenceConfig(const std::string& path) {
  if (path.empty()) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxConfigBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof())) return absl::UnavailableError("config.pbtxt: cannot be read");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxConfigBytes) return TooLarge(kFile, kMaxConfigBytes, text.size(), "config.pbtxt, in bytes");
  return ParseSequenceConfig(text);
}

}  // namespace kiln::server
