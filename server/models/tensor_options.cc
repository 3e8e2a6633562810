// Tested by server/models/infer_test.cc.
#include "server/models/tensor_options.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"
#include "server/messages/not_implemented.h"

namespace kiln::server {
namespace {

constexpr char kRegion[] = "shared_memory_region", kRegionBytes[] = "shared_memory_byte_size",
               kRegionOffset[] = "shared_memory_offset", kClasses[] = "classification";
// Triton's clients ask with each request whether the last answer of a stream be marked. Here each has one answer.
constexpr absl::string_view kHarmless = "triton_enable_empty_final_response";
// KServe's clients make one request for HTTP and gRPC, so what only chooses between JSON and bytes comes here, too.
// Here answers are bytes whatever is said.
constexpr char kBinarySize[] = "binary_data_size", kBinary[] = "binary_data", kBinaryOutput[] = "binary_data_output";
constexpr char kTimeout[] = "timeout";
constexpr char kSequenceId[] = "sequence_id", kSequenceStart[] = "sequence_start", kSequenceEnd[] = "sequence_end";
constexpr size_t kMaxSequenceId = 128;
constexpr uint32_t kMaxClasses = 1024;
constexpr size_t kMaxShown = 200;

// A name of a stranger's, on one line and not long.
std::string Shown(absl::string_view name) { return absl::CHexEscape(name.substr(0, kMaxShown)); }

// A parameter that is a number from 0 on; none for another.
std::optional<uint64_t> Number(const inference::InferParameter& parameter) {
  using Choice = inference::InferParameter;
  if (parameter.parameter_choice_case() == Choice::kUint64Param) return parameter.uint64_param();
  if (parameter.parameter_choice_case() == Choice::kInt64Param && parameter.int64_param() >= 0)
    return static_cast<uint64_t>(parameter.int64_param());
  return std::nullopt;
}

bool IsFlag(const inference::InferParameter& parameter) {
  return parameter.parameter_choice_case() == inference::InferParameter::kBoolParam;
}

absl::Status NoSequences(absl::string_view name) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NOT_IMPLEMENTED);
  detail.set_field(absl::StrCat("parameters.", name));
  return MakeError(std::move(detail), absl::StrCat("parameters.", name,
                                                   ": this model keeps nothing of one request for the next, so there "
                                                   "are no sequences; send each request with all that it needs"));
}

absl::Status BadParameter(absl::string_view name, absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(absl::StrCat("parameters.", name));
  return MakeError(std::move(detail), absl::StrCat("parameters.", name, " ", what));
}

// 0 and an empty text say that there is none, as Triton has it.
absl::Status ReadSequenceId(const inference::InferParameter& parameter, SequenceAsk& ask) {
  if (parameter.parameter_choice_case() == inference::InferParameter::kStringParam) {
    const std::string& text = parameter.string_param();
    if (text.size() > kMaxSequenceId)
      return BadParameter(kSequenceId, absl::StrCat("has ", text.size(), " bytes; at most ", kMaxSequenceId));
    if (!text.empty()) ask.id = absl::StrCat("\"", text, "\"");
    return absl::OkStatus();
  }
  const std::optional<uint64_t> number = Number(parameter);
  if (!number.has_value()) return BadParameter(kSequenceId, "is neither a number from 0 on nor a text");
  if (*number != 0) ask.id = absl::StrCat(*number);
  return absl::OkStatus();
}

}  // namespace

bool IsInRegion(const InferParameters& parameters) { return parameters.contains(kRegion); }

absl::StatusOr<TensorOptions> ReadTensorOptions(const InferParameters& parameters, TensorKind kind,
                                                const std::string& name) {
  const bool is_input = kind == TensorKind::kInput;
  const auto bad = [&](absl::string_view parameter, absl::string_view what) {
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field(name);
    return MakeError(std::move(detail), absl::StrCat(is_input ? "input" : "output", " \"", Shown(name),
                                                     "\": the parameter ", parameter, " ", what));
  };
  TensorOptions options;
  RegionSlice slice;
  bool has_bytes = false, has_offset = false;
  for (const auto& [key, value] : parameters) {
    if (key == kHarmless) continue;
    const std::optional<uint64_t> number = Number(value);
    if (key == kRegion) {
      if (value.string_param().empty()) return bad(key, "is no name");
      slice.region = value.string_param();
    } else if (key == kRegionBytes || key == kRegionOffset) {
      if (!number.has_value()) return bad(key, "is no number from 0 on");
      (key == kRegionBytes ? slice.bytes : slice.offset) = *number;
      (key == kRegionBytes ? has_bytes : has_offset) = true;
    } else if (key == kClasses && !is_input) {
      if (!number.has_value() || *number == 0 || *number > kMaxClasses)
        return bad(key, absl::StrCat("is no number from 1 to ", kMaxClasses));
      options.classes = static_cast<uint32_t>(*number);
    } else if (key == kBinarySize && is_input) {
      if (!number.has_value()) return bad(key, "is no number from 0 on");
      options.bytes = *number;
    } else if (key == kBinary && !is_input) {
      if (!IsFlag(value)) return bad(key, "is neither true nor false");
    } else {
      return NotImplemented(absl::StrCat(is_input ? "inputs." : "outputs.", "parameters.", Shown(key)));
    }
  }
  if (slice.region.empty() && (has_bytes || has_offset))
    return bad(has_bytes ? kRegionBytes : kRegionOffset, absl::StrCat("comes without ", kRegion));
  if (slice.region.empty()) return options;
  if (!has_bytes) return bad(kRegion, absl::StrCat("comes without ", kRegionBytes));
  if (options.classes != 0) return bad(kClasses, absl::StrCat("does not go with ", kRegion));
  if (options.bytes.has_value()) return bad(kBinarySize, absl::StrCat("does not go with ", kRegion));
  options.region = std::move(slice);
  return options;
}

absl::StatusOr<RequestOptions> ReadRequestParameters(const InferParameters& parameters, bool keeps_state) {
  RequestOptions options;
  SequenceAsk ask;
  for (const auto& [name, value] : parameters) {
    if (name == kHarmless) continue;
    if (name == kBinaryOutput) {
      if (!IsFlag(value)) return BadParameter(kBinaryOutput, "is neither true nor false");
      continue;
    }
    if (name == kTimeout) {
      const std::optional<uint64_t> micros = Number(value);
      if (!micros.has_value()) return BadParameter(kTimeout, "is no number of microseconds from 0 on");
      // 0 says that there is none, as Triton has it.
      constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
      if (*micros != 0) options.timeout = absl::Microseconds(static_cast<int64_t>(std::min(*micros, kMost)));
      continue;
    }
    if (!absl::StartsWith(name, "sequence_")) return NotImplemented(absl::StrCat("parameters.", Shown(name)));
    if (!keeps_state) return NoSequences(Shown(name));
    if (name == kSequenceId) {
      KILN_RETURN_IF_ERROR(ReadSequenceId(value, ask));
    } else if (name == kSequenceStart || name == kSequenceEnd) {
      if (!IsFlag(value)) return BadParameter(name, "is neither true nor false");
      (name == kSequenceStart ? ask.start : ask.end) = value.bool_param();
    } else {
      return NotImplemented(absl::StrCat("parameters.", Shown(name)));
    }
  }
  if (!keeps_state) return options;
  if (ask.id.empty())
    return BadParameter(kSequenceId,
                        "is missing: this model goes on from one request of a sequence to the next; give a "
                        "number from 1 on or a text, and sequence_start with the first");
  options.sequence = std::move(ask);
  return options;
}

void AddRegion(const RegionSlice& slice, InferParameters& parameters) {
  parameters[kRegion].set_string_param(slice.region);
  parameters[kRegionBytes].set_int64_param(static_cast<int64_t>(slice.bytes));
  if (slice.offset != 0) parameters[kRegionOffset].set_int64_param(static_cast<int64_t>(slice.offset));
}

}  // namespace kiln::server
