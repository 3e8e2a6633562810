#include "tests/client/sequences.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace kiln::client {
namespace {

absl::string_view BytesOf(const Values& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t)};
}

Values ValuesOf(const std::string& bytes) {
  Values values(bytes.size() / sizeof(int32_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

HostTensor TensorOf(const Values& values) { return HostTensor::Of({static_cast<int64_t>(values.size())}, values); }

constexpr size_t kWhole = kSize;

}  // namespace

Site::Site(const std::string& address, int count) {
  for (int i = 0; i < count; ++i) {
    devices.push_back(absl::StrCat("CPU:", i));
    ClientOptions options;
    options.device = devices.back();
    clients.push_back(Client::Connect(address, options).value());
    hasty.emplace_back();
    for (const double milliseconds : {0.3, 3.0, 12.0, 30.0}) {
      options.call_timeout = absl::Milliseconds(milliseconds);
      hasty.back().push_back(std::make_shared<Connection>(address, options));
      hasty.back().back()->IsReachable(absl::Seconds(10));
    }
  }
}

const Program& Site::Compiled(const std::string& name, const v1::Graph& graph, size_t device) {
  const auto key = std::make_pair(name, device);
  auto found = programs_.find(key);
  if (found == programs_.end()) found = programs_.emplace(key, clients[device]->Compile(graph).value()).first;
  return found->second;
}

size_t Site::IndexOf(const std::string& device) const {
  return static_cast<size_t>(std::find(devices.begin(), devices.end(), device) - devices.begin());
}

Sequence::Sequence(Site& site, uint32_t seed) : site_(site), random_(seed), home_(random_() % site.devices.size()) {
  stream_ = site_.clients[home_]->OpenStream().value();
  for (const std::string& device : site_.devices) {
    short_.push_back(NewSlot({}, Values(1), device));
    short_.back()->owned = client(short_.back()).Allocate(sizeof(int32_t)).value();
    short_.back()->ref = short_.back()->owned.Ref();
  }
  kinds_ = {{"one", One()}, {"two", Two()}, {"update", kiln::client::Update()}, {"replace", Replace()}};
}

const std::vector<Sequence::Weighted>& Sequence::Steps() {
  static const auto* const steps = new std::vector<Weighted>{
      {"make", &Sequence::Make, 5, false},          {"free", &Sequence::Free, 7, false},
      {"write", &Sequence::Write, 6, false},        {"fill", &Sequence::Fill, 9, false},
      {"copy", &Sequence::Copy, 3, false},          {"view", &Sequence::View, 2, false},
      {"read", &Sequence::Read, 4, false},          {"fence", &Sequence::Fence, 2, false},
      {"use freed", &Sequence::UseFreed, 1, false}, {"collective", &Sequence::Collective, 3, false},
      {"compile", &Sequence::Compile, 2, false},    {"compile broken", &Sequence::CompileBroken, 1, false},
      {"execute", &Sequence::Execute, 9, false},    {"fail", &Sequence::Fail, 3, false},
      {"partial", &Sequence::RunPartial, 4, false}, {"split", &Sequence::RunSplit, 5, true},
      {"stop", &Sequence::Stop, 3, false},
  };
  return *steps;
}

std::string Sequence::Run(int steps) {
  for (calls_ = 0; calls_ < steps && wrong_.empty(); ++calls_) {
    uint32_t all = 0;
    const auto weight = [this](const Weighted& step) {
      return step.on_several && site_.devices.size() == 1 ? 0 : step.weight;
    };
    for (const Weighted& step : Steps()) all += weight(step);
    uint32_t at = Below(all);
    for (const Weighted& step : Steps()) {
      if (at < weight(step)) {
        absl::StrAppend(&said_, calls_, " ", step.name, ", ");
        (this->*step.step)();
        break;
      }
      at -= weight(step);
    }
  }
  for (const SlotPtr& slot : Slots(slots_)) {
    if (wrong_.empty()) Read(slot);
  }
  Quiesce();
  stream_.reset();
  slots_.clear();
  short_.clear();
  for (const auto& client : site_.clients) client->FlushFrees();
  return wrong_.empty() ? "" : absl::StrCat(wrong_, " after ", said_);
}

// -- Choices

Values Sequence::Numbers(size_t count) {
  Values values(count);
  for (int32_t& value : values) value = Number();
  return values;
}

SlotPtr Sequence::Pick(const std::string& device, bool stream, bool any) {
  // What works on several would else hardly ever succeed: poison spreads, and little of it is overwritten.
  const bool fresh = Chance(10), healthy = Chance(50);
  Slots there;
  for (const SlotPtr& slot : slots_) {
    const bool here = device.empty() || slot->memory->device == device;
    const bool wanted = (any || slot->size() == kWhole) && (!healthy || !slot->cause().has_value());
    if (here && wanted && (stream || slot->everybodys())) there.push_back(slot);
  }
  if (!fresh && !there.empty()) return there[Below(static_cast<uint32_t>(there.size()))];
  return Make(device.empty() ? site_.devices[AnyDevice(stream)] : device, stream, kWhole);
}

std::vector<size_t> Sequence::SeveralDevices() {
  std::vector<size_t> devices;
  for (size_t i = 0; i < site_.devices.size(); ++i) devices.push_back(i);
  std::shuffle(devices.begin(), devices.end(), random_);
  if (Chance(50)) devices.resize(2);
  return devices;
}

SlotPtr Sequence::Keep(SlotPtr slot) {
  slots_.push_back(slot);
  return slot;
}

SlotPtr Sequence::KeepOwned(DeviceBuffer buffer, Values values, const std::string& device) {
  SlotPtr slot = NewSlot(buffer.Ref(), std::move(values), device);
  slot->owned = std::move(buffer);
  return Keep(std::move(slot));
}

void Sequence::Quiesce() {
  if (busy_) Expect(model_.Fenced(stream_->Fence().get()));
  busy_ = false;
}

void Sequence::Expect(const std::string& wrong) {
  if (wrong_.empty() && !wrong.empty()) wrong_ = absl::StrCat("call ", calls_, ": ", wrong);
}

// -- Memory

SlotPtr Sequence::Make(const std::string& device, bool stream, size_t size) {
  const bool zeros = Chance(50);
  Values values = zeros ? Values(size) : Numbers(size);
  const HostTensor tensor = TensorOf(values);
  if (stream && device == site_.devices[home_]) {
    busy_ = true;
    model_.Sent(std::nullopt, {});
    if (zeros) return Keep(NewSlot(stream_->Allocate(v1::INT32, tensor.shape), std::move(values), device));
    model_.Sent(std::nullopt, {});
    return Keep(NewSlot(stream_->Upload(tensor), std::move(values), device));
  }
  Quiesce();
  Client& client = *site_.clients[site_.IndexOf(device)];
  auto buffer = zeros ? client.Allocate(v1::INT32, tensor.shape) : client.Upload(tensor);
  return KeepOwned(std::move(buffer).value(), std::move(values), device);
}

void Sequence::Make() {
  const bool stream = Chance(50);
  Make(site_.devices[AnyDevice(stream)], stream, Chance(25) ? 20 : kWhole);
}

void Sequence::Free() {
  if (slots_.empty()) return;
  const size_t at = Below(static_cast<uint32_t>(slots_.size()));
  const SlotPtr slot = slots_[at];
  slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(at));
  if (slot->everybodys()) {
    Quiesce();
    slot->owned = DeviceBuffer();
    if (Chance(50)) client(slot).FlushFrees();
    return;
  }
  busy_ = true;
  stream_->Free({slot->ref});
  model_.Sent(std::nullopt, {});
  freed_.push_back(slot->ref);
}

void Sequence::Drop(const std::shared_ptr<Memory>& memory) {
  for (const SlotPtr& slot : Slots(slots_)) {
    if (slot->memory != memory) continue;
    slots_.erase(std::find(slots_.begin(), slots_.end(), slot));
    if (slot->everybodys()) continue;
    busy_ = true;
    stream_->Free({slot->ref});
    model_.Sent(std::nullopt, {});
  }
}

void Sequence::Write() {
  const bool stream = Chance(60);
  const SlotPtr slot = Pick("", stream, /*any=*/true);
  const size_t from = Chance(30) ? Below(static_cast<uint32_t>(slot->size())) : 0;
  const Values values = Numbers(from == 0 ? slot->size() : 1 + Below(static_cast<uint32_t>(slot->size() - from)));
  const MaybeCause cause = slot->memory->made ? MaybeCause() : slot->cause();
  v1::BufferRef to = slot->ref;
  to.set_offset(from * sizeof(int32_t));
  if (stream) {
    busy_ = true;
    // A write that is too long is refused, and concerns all of the buffer.
    const bool wrong = Chance(8);
    const Values sent = wrong ? Numbers(slot->size() - from + 1) : values;
    const MaybeCause ends = cause.has_value() || !wrong ? cause : model_.Fault({v1::OUT_OF_BOUNDS});
    stream_->Write(to, BytesOf(sent));
    model_.Sent(ends, {slot});
    if (!ends.has_value()) slot->Overwrite(values, from);
    return;
  }
  Quiesce();
  Expect(model_.Called(std::nullopt, std::nullopt, client(slot).Write(slot->owned, BytesOf(values), to.offset())));
  slot->Overwrite(values, from);
}

void Sequence::Fill() {
  const bool stream = Chance(60);
  const SlotPtr slot = Chance(10) ? short_[AnyDevice(false)] : Pick("", stream, /*any=*/true);
  const Values one(1, Number());
  const MaybeCause cause = slot->memory->made ? MaybeCause() : slot->cause();
  if (stream) {
    busy_ = true;
    stream_->Fill(slot->ref, BytesOf(one));
    model_.Sent(cause, {slot});
  } else {
    Quiesce();
    Expect(model_.Called(std::nullopt, std::nullopt, client(slot).Fill(slot->ref, BytesOf(one))));
  }
  if (!cause.has_value()) slot->Overwrite(Values(slot->size(), one[0]));
}

void Sequence::Copy() {
  const bool stream = Chance(60);
  const SlotPtr from = Pick("", stream), to = Pick("", stream);
  MaybeCause cause = from->cause();
  if (!to->memory->made) cause = Earliest(cause, to->cause());
  if (stream) {
    busy_ = true;
    stream_->Copy(from->ref, to->ref, kWhole * sizeof(int32_t));
    model_.Sent(cause, {to});
  } else {
    Quiesce();
    Expect(model_.Called(cause, std::nullopt, client(to).Copy(from->ref, to->ref, kWhole * sizeof(int32_t))));
  }
  if (!cause.has_value()) to->Overwrite(from->values());
}

void Sequence::View() {
  const bool stream = Chance(60);
  const SlotPtr of = Pick("", stream, /*any=*/true);
  const size_t count = of->size() > kWhole ? kWhole : 1 + Below(static_cast<uint32_t>(of->size()));
  const auto shown = std::make_shared<Slot>();
  shown->memory = of->memory;
  shown->begin = of->begin + Below(static_cast<uint32_t>(of->size() - count + 1));
  shown->end = shown->begin + count;
  v1::BufferRef at = of->ref;
  at.set_offset((shown->begin - of->begin) * sizeof(int32_t));
  const Shape shape = {static_cast<int64_t>(count)};
  if (stream) {  // of poison it is made, and says so
    busy_ = true;
    shown->ref = stream_->View(at, v1::INT32, shape);
    model_.Sent(shown->cause(), {});
  } else {
    Quiesce();
    shown->owned = client(of).View(at, v1::INT32, shape).value();
    shown->ref = shown->owned.Ref();
  }
  Keep(shown);
}

void Sequence::Read() { Read(Pick("", /*stream=*/true, /*any=*/true)); }

void Sequence::Read(const SlotPtr& slot) {
  const bool stream = !slot->everybodys() || Chance(50);
  const MaybeCause cause = slot->cause();
  absl::StatusOr<std::string> bytes;
  if (stream) {
    bytes = stream_->Read(slot->ref).get();
    Expect(model_.Asked(cause, bytes.status()));
  } else {
    Quiesce();
    bytes = client(slot).Read(slot->owned);
    Expect(model_.Called(cause, std::nullopt, bytes.status()));
  }
  if (bytes.ok() && ValuesOf(*bytes) != slot->values()) Expect("other values were read");
}

void Sequence::Fence() {
  busy_ = true;
  Quiesce();
}

// Names are not given again, so the stream knows what became of it; a call never knew it.
void Sequence::UseFreed() {
  if (freed_.empty()) return;
  const v1::BufferRef gone = freed_[Below(static_cast<uint32_t>(freed_.size()))];
  const SlotPtr to = Pick("", /*stream=*/false);
  if (Chance(50)) {
    const auto read = stream_->Read(gone).get();
    return Expect(model_.Asked(model_.Fault({v1::HANDLE_FREED}), read.status()));
  }
  Quiesce();
  const absl::Status copied = client(to).Copy(gone, to->ref, kWhole * sizeof(int32_t));
  Expect(model_.Called(std::nullopt, model_.Fault({v1::UNKNOWN_HANDLE}), copied));
}

// All reduced, or the first's given to all.
void Sequence::Collective() {
  const bool stream = Chance(60), reduces = Chance(70), greatest = Chance(50);
  std::vector<size_t> devices(site_.devices.size());
  for (size_t i = 0; i < devices.size(); ++i) devices[i] = i;
  std::shuffle(devices.begin(), devices.end(), random_);
  devices.resize(1 + Below(static_cast<uint32_t>(devices.size())));
  Slots slots;
  for (const size_t device : devices) slots.push_back(Pick(site_.devices[device], stream));
  v1::CollectiveRequest request;
  request.set_dtype(v1::INT32);
  request.set_count(kSize);
  if (reduces) request.set_op(greatest ? v1::MAX : v1::ADD);
  for (const SlotPtr& slot : slots) {
    if (reduces || request.input_size() == 0) *request.add_input() = slot->ref;
    *request.add_output() = slot->ref;
  }
  const size_t wrong = Chance(15) ? Below(static_cast<uint32_t>(slots.size())) : slots.size();
  MaybeCause own;
  Slots outputs = slots;
  if (wrong < slots.size()) {
    outputs[wrong] = short_[devices[wrong]];
    *request.mutable_output(static_cast<int>(wrong)) = outputs[wrong]->ref;
    own = model_.Fault({v1::OUT_OF_BOUNDS});
  }
  MaybeCause cause = reduces ? First(slots) : slots[0]->cause();
  for (const SlotPtr& slot : outputs) {
    if (!slot->memory->made) cause = Earliest(cause, slot->cause());
  }
  const auto kind = reduces ? v1::CollectiveCommand::ALL_REDUCE : v1::CollectiveCommand::BROADCAST;
  if (stream) {
    busy_ = true;
    const MaybeCause ends = cause.has_value() ? cause : own;
    stream_->Collective(kind, request);
    model_.Sent(ends, outputs);
  } else {
    Quiesce();
    Expect(model_.Called(cause, own, site_.clients[devices[0]]->Collective(kind, request).status()));
  }
  if (cause.has_value() || own.has_value()) return;
  Values values = slots[0]->values();
  for (size_t i = 1; reduces && i < slots.size(); ++i) {
    const Values more = slots[i]->values();
    for (size_t at = 0; at < kWhole; ++at) {
      values[at] = greatest ? std::max(values[at], more[at])
                            : static_cast<int32_t>(static_cast<uint32_t>(values[at]) + static_cast<uint32_t>(more[at]));
    }
  }
  for (const SlotPtr& slot : slots) slot->Overwrite(values);
}

}  // namespace kiln::client
