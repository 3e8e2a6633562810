#include "server/engine/executions/multi_execution.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "runtime/hal/stored_bytes.h"

namespace kiln::server {
namespace {

using runtime::MultiSlice;
using runtime::MultiValue;
using runtime::hal::BufferSlice;

double MicrosSince(absl::Time begin) { return absl::ToDoubleMicroseconds(absl::Now() - begin); }

// Share by share; what is whole on several devices is one of them.
size_t SharesToRead(const MultiValue& value) { return value.layout.axis < 0 ? 1 : value.slices.size(); }

}  // namespace

void MultiExecution::Start(const ExecuteRequest& request, const Control& control, ExecuteCallback done,
                           runtime::Executor executor, runtime::collective::Collectives* collectives,
                           BufferTable* buffers, uint64_t max_inline_bytes, ExecuteResult result) {
  auto* execution =
      new MultiExecution(request, control, std::move(done), executor, collectives, buffers, std::move(result));
  absl::Status status = BindMultiArguments(execution->result_.program->multi, execution->request_.arguments, *buffers,
                                           execution->request_.caller.get(), execution->bound_);
  if (status.ok()) status = execution->CheckInlineResults(max_inline_bytes);
  if (status.ok() && execution->request_.results_named) status = execution->CheckNames();
  if (status.ok()) status = execution->program().Check(execution->bound_.slices, execution->bound_.variables);
  if (status.ok() && !request.settled_by_caller) {
    AddTouched(execution->bound_, execution->touched_);
    status = execution->touched_.Check();
  }
  if (!status.ok()) return execution->End(std::move(status));
  execution->Upload();
}

MultiExecution::MultiExecution(const ExecuteRequest& request, const Control& control, ExecuteCallback done,
                               runtime::Executor executor, runtime::collective::Collectives* collectives,
                               BufferTable* buffers, ExecuteResult result)
    : request_(request),
      control_(control),
      done_(std::move(done)),
      executor_(executor),
      collectives_(collectives),
      buffers_(buffers),
      result_(std::move(result)) {}

bool MultiExecution::IsInline(size_t result) const {
  const v1::Signature::Result& type = signature().results(static_cast<int>(result));
  if (!type.has_aliases()) return request_.results_inline;
  return std::holds_alternative<TensorView>(bound_.arguments[type.aliases()]->value);
}

absl::Status MultiExecution::CheckInlineResults(uint64_t max_inline_bytes) const {
  uint64_t bytes = 0;
  for (int i = 0; i < signature().results_size() && bytes <= max_inline_bytes; ++i) {
    if (IsInline(static_cast<size_t>(i))) bytes += signature().results(i).bytes();
  }
  if (bytes <= max_inline_bytes) return absl::OkStatus();
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_field("result_mode");
  detail.set_limit("inline result bytes");
  detail.set_limit_value(max_inline_bytes);
  detail.set_used(bytes);
  return MakeError(detail, absl::StrCat("results of ", bytes, " bytes or more, by value; one answer holds ",
                                        max_inline_bytes, ": ask for handles, and Read them"));
}

absl::Status MultiExecution::CheckNames() const {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("result_handle");
  size_t next = 0;
  for (size_t i = 0; i < program().results().size(); ++i) {
    for (size_t share = 0; share < program().results()[i].slices.size(); ++share, ++next) {
      if (next >= request_.result_names.size() || request_.result_names[next] == 0) continue;
      if (!signature().results(static_cast<int>(i)).has_aliases()) continue;
      detail.set_handle(request_.result_names[next]);
      return MakeError(detail,
                       absl::StrCat("result ", i, " is the memory of a parameter, which has handles; give 0 for each"));
    }
  }
  if (next == request_.result_names.size()) return absl::OkStatus();
  return MakeError(detail, absl::StrCat("the results of the program have ", next, " shares; ",
                                        request_.result_names.size(), " handles were given"));
}

void MultiExecution::Upload() {
  const absl::Time begin = absl::Now();
  struct Write {
    runtime::hal::Queue* queue;
    const char* from;
    const BufferSlice* to;
  };
  std::vector<Write> writes;
  size_t next = 0;
  for (size_t i = 0; i < program().parameters().size(); ++i) {
    const MultiValue& value = program().parameters()[i];
    const auto* tensor = std::get_if<TensorView>(&bound_.arguments[i]->value);
    for (size_t share = 0; share < value.slices.size(); ++share, ++next) {
      if (tensor == nullptr) continue;
      const MultiSlice& slice = program().slices()[value.slices[share]];
      // A parameter is split along its first axis, so its shares lie in a row.
      const uint64_t offset = value.layout.axis < 0 ? 0 : share * slice.bytes;
      writes.push_back({&program().device(slice.device).queue(), tensor->data.data() + offset, &bound_.slices[next]});
    }
  }
  under_way_.store(static_cast<int>(writes.size()) + 1, std::memory_order_relaxed);
  for (const Write& write : writes) {
    write.queue->Write(write.from, *write.to,
                       [this](const absl::Status& status) { Arrive(status, &MultiExecution::Download); });
  }
  result_.timing.h2d = MicrosSince(begin);
  runtime::MultiRun::Start(
      bound_.program, bound_.slices, {.control = control_, .results = {}, .variables = bound_.variables, .start = this},
      executor_, collectives_, [this](absl::StatusOr<runtime::MultiRunResult> run) { OnRun(std::move(run)); });
}

absl::Status MultiExecution::Begin() {
  KILN_RETURN_IF_ERROR(touched_.Check());
  began_.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

void MultiExecution::OnRun(absl::StatusOr<runtime::MultiRunResult> run) {
  if (run.ok() || began_.load(std::memory_order_relaxed)) touched_.Settle(run.status());
  if (run.ok()) {
    result_.timing.device = run->device_seconds * 1e6;
    result_.collectives = std::move(run->collectives);
    size_t next = 0;
    for (const MultiValue& value : program().results()) {
      std::vector<BufferSlice>& shares = outputs_.emplace_back();
      for (size_t share = 0; share < value.slices.size(); ++share) shares.push_back(std::move(run->results[next++]));
    }
  }
  Arrive(run.status(), &MultiExecution::Download);
}

void MultiExecution::Arrive(const absl::Status& status, void (MultiExecution::*next)()) {
  if (!status.ok()) {
    absl::MutexLock lock(&mutex_);
    if (first_error_.ok()) first_error_ = status;
  }
  if (under_way_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  absl::Status error;
  {
    absl::MutexLock lock(&mutex_);
    error = first_error_;
  }
  if (!error.ok()) return End(std::move(error));
  (this->*next)();
}

void MultiExecution::Download() {
  download_begin_ = absl::Now();
  downloads_.resize(outputs_.size());
  int reads = 1;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!IsInline(i)) continue;
    for (size_t share = 0; share < SharesToRead(program().results()[i]); ++share, ++reads)
      downloads_[i].emplace_back(outputs_[i][share].bytes, '\0');
  }
  under_way_.store(reads, std::memory_order_relaxed);
  for (size_t i = 0; i < downloads_.size(); ++i) {
    for (size_t share = 0; share < downloads_[i].size(); ++share) {
      const MultiSlice& slice = program().slices()[program().results()[i].slices[share]];
      program()
          .device(slice.device)
          .queue()
          .Read(outputs_[i][share], downloads_[i][share].data(),
                [this](const absl::Status& status) { Arrive(status, &MultiExecution::Finish); });
    }
  }
  Arrive(absl::OkStatus(), &MultiExecution::Finish);  // the one more, for this loop
}

void MultiExecution::Finish() {
  // Handles that nobody will hear of would be memory that nobody can free. Names are the
  // client's own.
  if (absl::Status wanted = control_.Check(); !wanted.ok() && !request_.results_named) return End(std::move(wanted));
  result_.results.resize(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const MultiValue& value = program().results()[i];
    result_.results[i].index = static_cast<int>(i);
    if (!IsInline(i)) continue;
    result_.results[i].shape = value.layout.shape;
    if (downloads_[i].size() == 1) {
      result_.results[i].data = std::move(downloads_[i][0]);
      continue;
    }
    std::string& data = result_.results[i].data;
    data.resize(signature().results(static_cast<int>(i)).bytes());
    for (size_t share = 0; share < downloads_[i].size(); ++share) {
      const auto box = runtime::MeetShares(value.layout, static_cast<int64_t>(share), {value.layout.shape, -1, 1}, 0,
                                           runtime::StoredBytes(value.dtype));
      if (!box.has_value()) continue;
      runtime::ForEachRun(*box, downloads_[i][share].data(), data.data(),
                          [](const char* from, char* to, uint64_t bytes) { std::memcpy(to, from, bytes); });
    }
  }
  End(FileResults());
}

// Gives handles to what stays on the devices: to all of it, or to nothing.
absl::Status MultiExecution::FileResults() {
  std::vector<uint64_t> made;
  size_t name = 0;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const MultiValue& value = program().results()[i];
    const v1::Signature::Result& type = signature().results(static_cast<int>(i));
    ResultValue& result = result_.results[i];
    const size_t first_name = std::exchange(name, name + value.slices.size());
    if (IsInline(i)) continue;
    result.axis = value.layout.axis;
    size_t first = 0;  // of the parameter's shares
    for (uint32_t p = 0; type.has_aliases() && p < type.aliases(); ++p)
      first += program().parameters()[p].slices.size();
    for (size_t share = 0; share < value.slices.size(); ++share) {
      ResultValue::Shard shard;
      if (type.has_aliases()) {
        const Argument& argument = *bound_.arguments[type.aliases()];
        const auto* one = std::get_if<BufferAddress>(&argument.value);
        shard.handle = one != nullptr ? one->handle : std::get<ShardAddresses>(argument.value).shards[share].handle;
        shard.buffer = bound_.records[first + share];
      } else {
        auto record = std::make_shared<BufferRecord>();
        record->slice = std::move(outputs_[i][share]);
        record->device = &program().device(program().slices()[value.slices[share]].device);
        record->dtype = type.dtype();
        record->shape.assign(value.layout.shape.begin(), value.layout.shape.end());
        if (value.layout.axis >= 0) record->shape[static_cast<size_t>(value.layout.axis)] /= value.layout.shares;
        if (request_.results_named) {
          shard.handle = request_.result_names[first_name + share];
          shard.buffer = record;
          record->poison = buffers_->ExtentOf(shard.handle, 0, 0, request_.caller.get()).extent.poison;
          if (shard.handle != 0) request_.caller->names().Make(shard.handle, std::move(record));
          result.shards.push_back(std::move(shard));
          continue;
        }
        record->owner = request_.caller;
        record->poison = std::make_shared<Poison>();
        const auto handle = buffers_->Add(record);
        if (!handle.ok()) {
          buffers_->Free(made, request_.caller.get()).IgnoreError();
          return handle.status();
        }
        made.push_back(*handle);
        shard.handle = *handle;
        shard.buffer = std::move(record);
      }
      result.shards.push_back(std::move(shard));
    }
    if (result.shards.size() > 1) continue;
    result.handle = result.shards[0].handle;
    result.buffer = std::move(result.shards[0].buffer);
    result.shards.clear();
  }
  return absl::OkStatus();
}

void MultiExecution::End(absl::Status status) {
  const std::unique_ptr<MultiExecution> self(this);
  if (!status.ok()) return done_(std::move(status));
  result_.timing.d2h = MicrosSince(download_begin_);
  done_(std::move(result_));
}

}  // namespace kiln::server
