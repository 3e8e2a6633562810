// Streams, events and graphs of the fakes.
#include <utility>

#include "tests/support/fake_gpu/world.h"

namespace kiln::testing::fake_gpu {

int World::MakeStream(int device, void** stream) {
  auto made = std::make_shared<Stream>();
  made->device = device;
  *stream = made.get();
  streams_[made.get()] = std::move(made);
  return kSuccess;
}

int World::MakeEvent(int device, void** event, bool timed) {
  auto made = std::make_shared<Event>();
  made->device = device;
  made->timed = timed;
  *event = made.get();
  events_[made.get()] = std::move(made);
  return kSuccess;
}

int World::DestroyStream(void* stream) {
  const auto found = StreamAt(stream);
  if (found == nullptr) return kInvalidHandle;
  RunUntil(*found, found->asked);
  streams_.erase(stream);
  return kSuccess;
}

int World::DestroyEvent(void* event) { return events_.erase(event) == 1 ? kSuccess : kInvalidHandle; }

std::shared_ptr<Stream> World::StreamAt(void* stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second;
}

int World::Ask(void* stream, std::function<int()> operation) {
  const auto found = StreamAt(stream);
  if (found == nullptr) return kInvalidHandle;
  if (found->captures) {
    found->captured.push_back(std::move(operation));
    return kSuccess;
  }
  found->waiting.push_back(std::move(operation));
  ++found->asked;
  return kSuccess;
}

int World::RunUntil(Stream& stream, uint64_t count) {
  while (stream.done < count && !stream.waiting.empty()) {
    const std::function<int()> operation = std::move(stream.waiting.front());
    stream.waiting.pop_front();
    ++stream.done;
    // Of a lost device nothing happens any more.
    const int code = lost_.count(stream.device) == 0 ? operation() : kSuccess;
    if (code == kNotReady) {
      stream.waiting.push_front(operation);
      --stream.done;
      return kNotReady;
    }
    Lose(stream.device, code);
  }
  const auto lost = lost_.find(stream.device);
  return lost == lost_.end() ? kSuccess : lost->second;
}

int World::Record(void* event, void* stream) {
  const auto found = events_.find(event);
  const auto of = StreamAt(stream);
  if (found == events_.end() || of == nullptr) return kInvalidHandle;
  found->second->stream = of;
  found->second->after = of->asked;
  return kSuccess;
}

int World::Follow(void* stream, void* event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return kInvalidHandle;
  return Ask(stream, [this, at = *found->second] { return at.stream == nullptr ? 0 : RunUntil(*at.stream, at.after); });
}

int World::Finish(void* stream) {
  const auto found = StreamAt(stream);
  return found == nullptr ? kInvalidHandle : RunUntil(*found, found->asked);
}

int World::Wait(void* event) {
  const auto found = events_.find(event);
  if (found == events_.end()) return kInvalidHandle;
  const Event at = *found->second;
  return at.stream == nullptr ? kSuccess : RunUntil(*at.stream, at.after);
}

int World::Query(void* event) { return Wait(event); }

int World::Elapsed(float* milliseconds, void* from, void* to) {
  const auto begin = events_.find(from), end = events_.find(to);
  if (begin == events_.end() || end == events_.end()) return kInvalidHandle;
  if (!begin->second->timed || !end->second->timed) return kInvalidHandle;
  const auto& stream = end->second->stream;
  if (stream == nullptr || stream != begin->second->stream) return kInvalidHandle;
  if (stream->done < end->second->after) return kNotReady;
  *milliseconds = static_cast<float>(end->second->after - begin->second->after);
  return kSuccess;
}

int World::BeginCapture(void* stream) {
  const auto found = StreamAt(stream);
  if (found == nullptr || found->captures) return kInvalidHandle;
  found->captures = true;
  return kSuccess;
}

int World::EndCapture(void* stream, void** graph) {
  const auto found = StreamAt(stream);
  if (found == nullptr || !found->captures) return kInvalidHandle;
  found->captures = false;
  auto made = std::make_unique<Graph>();
  made->device = found->device;
  made->operations = std::exchange(found->captured, {});
  *graph = made.get();
  graphs_[made.get()] = std::move(made);
  return kSuccess;
}

int World::Instantiate(void* graph, void** made) {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return kInvalidHandle;
  auto copy = std::make_unique<Graph>(*found->second);
  *made = copy.get();
  graphs_[copy.get()] = std::move(copy);
  return kSuccess;
}

int World::DestroyGraph(void* graph) { return graphs_.erase(graph) == 1 ? kSuccess : kInvalidHandle; }

int World::LaunchGraph(void* graph, void* stream) {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return kInvalidHandle;
  for (const auto& operation : found->second->operations) {
    if (const int code = Ask(stream, operation); code != kSuccess) return code;
  }
  return kSuccess;
}

}  // namespace kiln::testing::fake_gpu
