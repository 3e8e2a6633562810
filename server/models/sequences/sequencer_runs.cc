// Runs of a sequencer: from steps to one request over the pools, and from its result to answers.
//
// Tested by sequencer_test.cc.
#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/hal/allocator.h"
#include "server/engine/executions/count_timing.h"
#include "server/metrics/count.h"
#include "server/models/sequences/sequencer.h"

namespace kiln::server {

namespace {

std::string BytesOf(const std::vector<int32_t>& list) {
  return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(int32_t)};
}

const TensorView& TensorOf(const ExecuteRequest& request, uint32_t slot) {
  const auto found = std::find_if(request.arguments.begin(), request.arguments.end(),
                                  [slot](const Argument& each) { return each.slot == slot; });
  return std::get<TensorView>(found->value);  // all requests have the same slots
}

// One row of each result.
absl::InlinedVector<ResultValue, 4> RowOf(const ExecuteResult& whole, size_t row, size_t rows) {
  absl::InlinedVector<ResultValue, 4> mine;
  for (const ResultValue& value : whole.results) {
    ResultValue& part = mine.emplace_back();
    part.index = value.index;
    part.shape = value.shape;
    part.shape[0] = 1;
    const size_t bytes = value.data.size() / rows;
    part.data = value.data.substr(row * bytes, bytes);
  }
  return mine;
}

uint64_t BytesOf(absl::Span<const ResultValue> results) {
  uint64_t bytes = 0;
  for (const ResultValue& value : results) bytes += value.data.size();
  return bytes;
}

}  // namespace

void Sequencer::Start(const LinePtr& line, Steps steps) {
  auto joined = std::make_shared<Joined>();
  joined->line = line;
  joined->steps = std::move(steps);
  joined->begin = SteadyNow();
  const Step& first = *joined->steps[0];
  if (absl::Status made = MakePools(*line, first.control.account); !made.ok()) return OnEnded(joined, std::move(made));
  if (absl::Status paid = PayForCopies(*joined); !paid.ok()) return OnEnded(joined, std::move(paid));
  // It goes on as long as it is in time for one of them. One is as any other: it stops when its client has gone.
  Control control = first.control;
  if (joined->steps.size() > 1) control.cancelled = &joined->cancelled;
  for (const std::unique_ptr<Step>& step : joined->steps) {
    control.deadline = std::max(control.deadline, step->control.deadline);
    if (step->control.domain != control.domain) control.domain = MemoryDomain::kNobody;
  }
  Join(*joined);
  if (joined->steps.size() > 1) {
    absl::MutexLock lock(&mutex_);
    line->together = joined.get();
    AskForTick(line);
  }
  options_.run(std::move(joined->request), control,
               [self = shared_from_this(), joined](absl::StatusOr<ExecuteResult> result) {
                 self->OnEnded(joined, std::move(result));
               });
}

absl::Status Sequencer::MakePools(Line& line, Account* account) {
  {
    absl::MutexLock lock(&mutex_);
    if (!line.pools.empty()) return absl::OkStatus();
  }
  const auto slots = static_cast<int64_t>(options_.max_sequences + options_.max_rows);
  std::vector<BufferTable::Record> pools;
  for (const Pool& pool : options_.pools) {
    auto record = std::make_shared<BufferRecord>();
    KILN_ASSIGN_OR_RETURN(
        auto memory,
        runtime::hal::AllocateFor(account, options_.device->allocator(), static_cast<uint64_t>(slots) * pool.row_bytes,
                                  runtime::hal::MemoryUse::kProgram, MemoryDomain::kNobody));
    record->slice = runtime::hal::BufferSlice::Whole(std::move(memory));
    record->device = options_.device;
    record->dtype = pool.dtype;
    record->shape.push_back(slots);
    record->shape.insert(record->shape.end(), pool.row.begin(), pool.row.end());
    pools.push_back(std::move(record));
  }
  absl::MutexLock lock(&mutex_);
  line.pools = std::move(pools);
  return absl::OkStatus();
}

absl::Status Sequencer::PayForCopies(Joined& joined) {
  if (joined.steps.size() == 1) return absl::OkStatus();
  uint64_t bytes = 0;
  for (const std::unique_ptr<Step>& step : joined.steps) bytes += step->sent;
  KILN_ASSIGN_OR_RETURN(joined.charge, Hold(joined.steps[0]->control.account, Quota::kHostBytes, bytes));
  return absl::OkStatus();
}

void Sequencer::Join(Joined& joined) const {
  const size_t rows = joined.steps.size();
  const ExecuteRequest& first = joined.steps[0]->request;
  // As many as are put in below: what is pointed to must not move.
  joined.bytes.reserve(first.arguments.size() + 2);
  joined.shapes.reserve(first.arguments.size() + 2);
  ExecuteRequest& made = joined.request;
  made.program = first.program;
  made.results_inline = true;
  made.caller = first.caller;
  made.of_several = rows > 1;
  made.parts = rows > 1 ? &joined.parts : first.parts;
  const auto add = [&](uint32_t slot, v1::DType dtype, std::vector<int64_t> shape, std::string bytes) {
    joined.bytes.push_back(std::move(bytes));
    joined.shapes.push_back(std::move(shape));
    made.arguments.push_back({slot, TensorView{dtype, joined.shapes.back(), joined.bytes.back()}});
  };
  for (const Argument& argument : first.arguments) {
    if (argument.slot == options_.batch_slot) {
      made.arguments.push_back({argument.slot, static_cast<int64_t>(rows)});
      continue;
    }
    const auto* tensor = std::get_if<TensorView>(&argument.value);
    if (tensor == nullptr || rows == 1) {
      made.arguments.push_back(argument);
      continue;
    }
    std::vector<int64_t> shape(tensor->shape.begin(), tensor->shape.end());
    shape[0] = static_cast<int64_t>(rows);
    std::string bytes;
    bytes.reserve(tensor->data.size() * rows);
    for (const std::unique_ptr<Step>& step : joined.steps)
      absl::StrAppend(&bytes, TensorOf(step->request, argument.slot).data);
    add(argument.slot, tensor->dtype, std::move(shape), std::move(bytes));
  }
  std::vector<int32_t> from, row_of(options_.max_sequences + options_.max_rows, SequenceSlots::kNone);
  for (size_t row = 0; row < rows; ++row) {
    const SequenceSlots::Move& move = joined.steps[row]->move;
    from.push_back(move.from);
    row_of[static_cast<size_t>(move.to)] = static_cast<int32_t>(row);
  }
  if (options_.from_slot.has_value()) add(*options_.from_slot, v1::INT32, {static_cast<int64_t>(rows)}, BytesOf(from));
  add(options_.row_of_slot, v1::INT32, {static_cast<int64_t>(row_of.size())}, BytesOf(row_of));
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < options_.pools.size(); ++i)
    made.arguments.push_back({options_.pools[i].slot, joined.line->pools[i]});
}

void Sequencer::OnEnded(const std::shared_ptr<Joined>& joined, absl::StatusOr<ExecuteResult> result) {
  const LinePtr& line = joined->line;
  Steps& steps = joined->steps;
  const size_t rows = steps.size();
  joined->bytes.clear();
  joined->charge.Release();
  if (result.ok()) {
    absl::MutexLock lock(&mutex_);
    times_.Observe(steps[0]->variables, static_cast<int64_t>(rows), static_cast<uint64_t>(result->timing.device * 1e3));
  }
  if (!result.ok() && rows > 1) {
    // One request's fault is not another's: each is run by itself.
    {
      absl::MutexLock lock(&mutex_);
      line->together = nullptr;
      for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
        line->slots.GiveBack((*step)->move);
        (*step)->alone = true;
        line->waiting.push_front(std::move(*step));
      }
      line->running = false;
    }
    return GoOn(line);
  }
  // What the whole was paid for is paid for by each now, row by row: not twice at a time, or a tenant whose room is
  // enough for the run would be refused its answers.
  if (rows > 1) result->charge.Release();
  int batch = static_cast<int>(rows);  // of the first that is answered well: the run is counted once, whoever fails
  // What each is told, before its sequence moves on: who is told of a failure has the state that it had.
  std::vector<absl::StatusOr<ExecuteResult>> answers;
  if (rows == 1) {
    if (result.ok()) result->timing.queue += absl::ToDoubleMicroseconds(joined->begin - steps[0]->since);
    answers.push_back(std::move(result));
  }
  for (size_t row = 0; row < rows && answers.size() < rows; ++row) {
    const Step& step = *steps[row];
    if (absl::Status wanted = step.control.Check(); !wanted.ok()) {
      CountEnded(*options_.metrics, wanted, Place::kAnswer);
      answers.emplace_back(std::move(wanted));
      continue;
    }
    ExecuteResult part;
    part.results = RowOf(*result, row, rows);
    // Once as the result, and once more as the message that holds it.
    auto charge = Hold(step.control.account, Quota::kHostBytes, 2 * BytesOf(part.results));
    if (!charge.ok()) {
      answers.emplace_back(std::move(charge).status());
      continue;
    }
    part.program = result->program;
    part.timing = result->timing;
    part.timing.queue += absl::ToDoubleMicroseconds(joined->begin - step.since);
    part.batch = std::exchange(batch, 0);
    part.charge = *std::move(charge);
    CountTiming(*options_.metrics, part.timing);
    if (step.request.parts != nullptr) step.request.parts->SetRunOf(joined->parts);
    answers.emplace_back(std::move(part));
  }
  if (rows > 1) {
    options_.metrics->batched_runs.Add(1);
    options_.metrics->batched_requests.Add(rows);
    options_.metrics->batch_rows.Observe(static_cast<int64_t>(rows));
  }
  {
    std::vector<BufferTable::Record> unused;  // goes without the lock, and before anybody hears that it is not needed
    const absl::Time now = SteadyNow();
    absl::MutexLock lock(&mutex_);
    line->expected.clear();
    line->hold_until = now + options_.queue_delay;
    for (size_t row = 0; row < rows; ++row) {
      if (!answers[row].ok()) {
        line->slots.GiveBack(steps[row]->move);
        line->slots.Fail(steps[row]->ask, now);
        continue;
      }
      line->slots.Succeed(steps[row]->ask, steps[row]->move, now);
      if (!steps[row]->ask.end) line->expected.insert(steps[row]->ask.id);
    }
    line->running = false;
    line->together = nullptr;
    unused = TakePoolsIfUnused(*line);
    AskForSweep(line, now + options_.idle);
  }
  // The next run is in the device's queue before these are answered.
  GoOn(line);
  for (size_t row = 0; row < rows; ++row) steps[row]->done(std::move(answers[row]));
}

}  // namespace kiln::server
