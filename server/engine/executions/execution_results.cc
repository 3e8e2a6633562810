// What a program gives, as results with handles, with names, or by value. Tested by tests/e2e.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/hal/stored_bytes.h"
#include "server/engine/executions/execution.h"
#include "server/engine/memory/over_limit.h"

namespace kiln::server {
namespace {

using runtime::ProgramValue;
using runtime::hal::BufferSlice;

absl::Status BadNames(absl::string_view text, uint64_t handle = 0) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("result_handle");
  detail.set_handle(handle);
  return MakeError(detail, text);
}

}  // namespace

absl::Status Execution::CheckNames() const {
  const std::vector<runtime::PlanResult>& given = loaded().given();
  const size_t results = loaded().results().size();
  if (request_.result_names.size() != given.size()) {
    return BadNames(
        absl::StrCat("the program has ", results, " results",
                     given.size() == results ? "" : absl::StrCat(", together on ", given.size(), " devices"),
                     ", and takes a handle for each; ", request_.result_names.size(), " were given"));
  }
  for (size_t result = 0; result < results; ++result) {
    const ProgramValue& value = loaded().results()[result];
    for (size_t number = value.first; number < value.first + value.slices.size(); ++number) {
      if (given[number].alias == runtime::PlanResult::kFresh || request_.result_names[number] == 0) continue;
      return BadNames(absl::StrCat("result ", result, " is the memory of a parameter, which has a handle; give 0"),
                      request_.result_names[number]);
    }
  }
  return absl::OkStatus();
}

absl::Status Execution::MakeNamedResults() {
  const std::vector<runtime::PlanResult>& given = loaded().given();
  for (size_t i = 0; i < given.size(); ++i) {
    named_.emplace_back();
    if (given[i].alias != runtime::PlanResult::kFresh) continue;  // a parameter takes no other memory
    runtime::hal::Allocator& allocator = loaded().device_of_given(i).allocator();
    KILN_ASSIGN_OR_RETURN(
        auto memory, runtime::hal::AllocateFor(control_.account, allocator, given[i].shape.BytesAt(bound_.variables),
                                               runtime::hal::MemoryUse::kProgram, control_.domain));
    named_.back() = BufferSlice::Whole(std::move(memory));
  }
  result_.results.resize(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (named_[i].buffer == nullptr || request_.result_names[i] == 0) continue;
    ResultValue::Shard shard;
    std::vector<uint64_t> made;
    KILN_RETURN_IF_ERROR(FileShare(i, 0, shard, made));
    result_.results[i].handle = shard.handle;
    result_.results[i].buffer = std::move(shard.buffer);
  }
  return absl::OkStatus();
}

// A result that is a parameter sent by value, or memory of the server's own, has nowhere to stay, so it goes
// back by value, whatever was asked for; one that is a buffer of the client's
// stays where it is.
bool Execution::IsInline(size_t result) const {
  const v1::Signature::Result& type = signature().results(static_cast<int>(result));
  return type.has_aliases() ? bound_.without_handle(type.aliases()) : request_.results_inline;
}

absl::Status Execution::CheckInlineResults(uint64_t& bytes) const {
  const std::vector<ProgramValue>& results = loaded().results();
  // Each has less than 2^63 bytes, and the sum before it fits in memory.
  for (size_t i = 0; i < results.size() && bytes <= max_inline_bytes_; ++i) {
    if (IsInline(i)) bytes += results[i].shape.BytesAt(bound_.variables);
  }
  if (bytes <= max_inline_bytes_) return absl::OkStatus();
  return OverLimit("inline result bytes", max_inline_bytes_, bytes,
                   absl::StrCat("results of ", bytes, " bytes or more, by value; one answer holds ", max_inline_bytes_,
                                ": ask for handles, and Read them"),
                   "result_mode");
}

// Once as the result, and once more as the message that holds it.
absl::Status Execution::PayForAnswer(uint64_t inline_bytes) {
  KILN_ASSIGN_OR_RETURN(result_.charge, Hold(control_.account, Quota::kHostBytes, 2 * inline_bytes));
  return absl::OkStatus();
}

void Execution::Gather() {
  for (size_t i = 0; i < downloads_.size(); ++i) {
    if (downloads_[i].empty()) continue;
    const ProgramValue& value = loaded().results()[i];
    const runtime::ValueLayout layout = value.LayoutAt(bound_.variables);
    for (size_t share = 0; share < downloads_[i].size(); ++share) {
      const auto box = runtime::MeetShares(layout, static_cast<int64_t>(share), {layout.shape, -1, 1}, 0,
                                           runtime::StoredBytes(value.dtype));
      if (!box.has_value()) continue;
      runtime::ForEachRun(*box, downloads_[i][share].data(), result_.results[i].data.data(),
                          [](const char* from, char* to, uint64_t bytes) { std::memcpy(to, from, bytes); });
    }
  }
}

absl::Status Execution::FileResults() {
  std::vector<uint64_t> made;
  for (size_t i = 0; i < result_.results.size(); ++i) {
    const ProgramValue& value = loaded().results()[i];
    ResultValue& result = result_.results[i];
    const bool fresh = loaded().given()[value.first].alias == runtime::PlanResult::kFresh;
    const bool filed = fresh && !named_.empty();  // before the run
    if (IsInline(i) || filed) continue;
    result.axis = value.layout.axis;
    for (size_t share = 0; share < value.slices.size(); ++share) {
      ResultValue::Shard shard;
      if (absl::Status status = FileShare(i, share, shard, made); !status.ok()) {
        // The session has freed them, or may not be shown them any more.
        buffers_->Free(made, request_.caller.get()).IgnoreError();
        return status;
      }
      if (value.slices.size() == 1) {
        result.handle = shard.handle;
        result.buffer = std::move(shard.buffer);
      } else {
        result.shards.push_back(std::move(shard));
      }
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<BufferRecord> Execution::RecordOf(size_t result, size_t share, BufferSlice slice) const {
  const ProgramValue& value = loaded().results()[result];
  auto record = std::make_shared<BufferRecord>();
  record->slice = std::move(slice);
  record->device = &loaded().device_of_given(value.first + share);
  record->dtype = value.dtype;
  const std::vector<int64_t> shape = loaded().given()[value.first + share].shape.At(bound_.variables);
  record->shape.assign(shape.begin(), shape.end());
  return record;
}

absl::Status Execution::FileShare(size_t result, size_t share, ResultValue::Shard& shard, std::vector<uint64_t>& made) {
  const v1::Signature::Result& type = signature().results(static_cast<int>(result));
  const size_t number = loaded().results()[result].first + share;
  if (type.has_aliases()) {
    shard.handle = bound_.HandleOf(type.aliases(), share);
    shard.buffer = bound_.records[loaded().given()[number].alias];
    return absl::OkStatus();
  }
  std::shared_ptr<BufferRecord> record =
      RecordOf(result, share, named_.empty() ? std::move(outputs_[number]) : named_[number]);
  shard.buffer = record;
  if (request_.results_named) {
    shard.handle = request_.result_names[number];
    record->poison = buffers_->ExtentOf(shard.handle, 0, 0, request_.caller.get()).extent.poison;
    if (shard.handle != 0) request_.caller->names().Make(shard.handle, std::move(record));
    return absl::OkStatus();
  }
  record->owner = request_.caller;
  record->poison = std::make_shared<Poison>();
  KILN_ASSIGN_OR_RETURN(shard.handle, buffers_->Add(record));
  made.push_back(shard.handle);
  return absl::OkStatus();
}

}  // namespace kiln::server
