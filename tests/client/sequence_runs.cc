// The steps of random sequences (sequences.h) that compile and run programs.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/client/sequences.h"

namespace kiln::client {
namespace {

HostTensor TensorOf(const Values& values) { return HostTensor::Of({static_cast<int64_t>(values.size())}, values); }

int32_t Plus(int32_t a, int32_t b) { return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); }
int32_t Times(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

Values Added(Values values, int32_t more) {
  for (int32_t& value : values) value = Plus(value, more);
  return values;
}

std::vector<v1::BufferRef> RefsOf(const Slots& slots) {
  std::vector<v1::BufferRef> refs;
  for (const SlotPtr& slot : slots) refs.push_back(slot->ref);
  return refs;
}

bool AllMade(const Slots& slots) {
  return std::all_of(slots.begin(), slots.end(), [](const SlotPtr& slot) { return slot->memory->made; });
}

}  // namespace

void Sequence::AddResults(const std::vector<v1::BufferRef>& refs, const std::vector<Values>& values,
                          const MaybeCause& cause, bool made, const std::string& device) {
  size_t next = 0;
  for (const v1::BufferRef& ref : refs) {
    if (ref.handle() == 0) continue;  // a parameter's own memory
    Keep(NewSlot(ref, cause.has_value() ? Values(kSize) : values[next++], device, cause, made));
  }
}

void Sequence::AddResults(RunResults run, const std::vector<Values>& values, const std::string& device) {
  size_t next = 0;
  for (RunResult& result : run.results) {
    if (!result.tensor.bytes.empty()) {
      if (result.tensor.Values<int32_t>() != values[next++]) Expect("another result came by value");
    } else if (result.buffer.valid()) {
      KeepOwned(std::move(result.buffer), values[next++], device);
    }
  }
}

// -- Compiling

void Sequence::Compile() {
  const std::string name = absl::StrCat("new ", said_.size(), " ", random_());
  Kind kind = AnyKind(random_);
  if (Chance(30)) {
    busy_ = true;
    Expect(model_.Asked(std::nullopt, stream_->Compile(kind.graph).get().status()));
  } else {
    site_.Compiled(name, kind.graph, AnyDevice(false));
  }
  kinds_.emplace_back(name, std::move(kind));
}

// It concerns nobody else, and is told at once, whatever else is under way.
void Sequence::CompileBroken() {
  const auto broken = Broken();
  const auto& [code, graph] = broken[Below(static_cast<uint32_t>(broken.size()))];
  const MaybeCause fault = model_.Fault({code});
  if (Chance(50)) {
    busy_ = true;
    return Expect(model_.Asked(fault, stream_->Compile(graph).get().status()));
  }
  Expect(model_.Called(std::nullopt, fault, site_.clients[AnyDevice(false)]->Compile(graph).status()));
}

// -- On one device

void Sequence::Execute() {
  const bool stream = Chance(60);
  const size_t at = AnyDevice(stream);
  const std::string& device = site_.devices[at];
  // Of a copy: a new kind may come meanwhile.
  const auto [name, kind] = kinds_[Below(static_cast<uint32_t>(kinds_.size()))];
  const Program& program = site_.Compiled(name, kind.graph, at);
  Arguments arguments;
  Slots given, read;
  Values x(kSize), y(kSize);
  SlotPtr target;
  if (kind.has_x) {
    const SlotPtr slot = Pick(device, stream);
    arguments.Set(0, slot->ref);
    x = slot->values();
    given.push_back(slot);
    if (kind.update) target = slot;
    const bool overwritten = program.signature().parameters(0).overwritten();
    if (!overwritten || !slot->memory->made) read.push_back(slot);
  }
  SlotPtr other;
  if (kind.has_y && Chance(20)) {
    y = Numbers(kSize);
    arguments.Set(1, TensorOf(y));
  } else if (kind.has_y) {
    other = Pick(device, stream);
    arguments.Set(1, other->ref);
    y = other->values();
    given.push_back(other);
    read.push_back(other);
  }
  const MaybeCause met = First(read);
  MaybeCause own;
  if (target != nullptr && other != nullptr && target->Meets(*other)) own = model_.Fault({v1::BAD_ARGUMENT});
  std::vector<Values> values;
  for (const Kind::Function& result : kind.results) values.push_back(result(x, y));
  const Slots written = target == nullptr ? Slots() : Slots{target};
  if (stream) {
    busy_ = true;
    const MaybeCause cause = met.has_value() ? met : own;
    const auto refs = stream_->Execute(program, arguments, absl::StrCat("call ", calls_));
    model_.Sent(cause, written);
    AddResults(refs, values, cause, AllMade(given), device);
  } else {
    Quiesce();
    auto run = program.Run(arguments, {.results = Chance(50) ? v1::RESULT_INLINE : v1::RESULT_HANDLES});
    Expect(model_.Called(met, own, run.status()));
    if (run.ok()) AddResults(*std::move(run), values, device);
  }
  if (target != nullptr && !met.has_value() && !own.has_value()) target->Overwrite(kind.update(x, y));
}

void Sequence::Fail() {
  const bool stream = Chance(60), updates = Chance(50);
  const size_t at = AnyDevice(stream);
  const std::string& device = site_.devices[at];
  const Kind kind = updates ? kiln::client::Update() : Two();
  const Program& program = site_.Compiled(updates ? "update" : "two", kind.graph, at);
  SlotPtr x = Pick(device, stream);
  const SlotPtr y = Pick(device, stream);
  Arguments arguments;
  arguments.Set(0, x->ref).Set(1, y->ref);
  Slots read = {x, y};
  v1::ErrorCode code = v1::UNKNOWN_ARGUMENT;
  bool made = false;
  switch (Below(4)) {
    case 0:  // y is too short
      code = v1::BUFFER_SIZE_MISMATCH;
      arguments.Set(1, short_[at]->ref);
      read = {x, short_[at]};
      break;
    case 1:  // there is no y
      code = v1::MISSING_ARGUMENT;
      arguments = Arguments().Set(0, x->ref);
      read = {x};
      break;
    case 2:  // x is elsewhere: which is seen when there is memory for the results
      if (site_.devices.size() == 1) return;
      x = Pick(site_.devices[(at + 1 + Below(static_cast<uint32_t>(site_.devices.size() - 1))) % site_.devices.size()],
               stream);
      arguments.Set(0, x->ref);
      code = v1::BUFFER_DEVICE_MISMATCH;
      read = {x, y};
      made = AllMade(read);
      break;
    default: arguments.Set(7, int64_t{3});  // nobody asked for it
  }
  const MaybeCause met = First(read), own = model_.Fault({code});
  if (stream) {
    busy_ = true;
    const MaybeCause cause = met.has_value() ? met : own;
    const auto refs = stream_->Execute(program, arguments);
    model_.Sent(cause, updates ? Slots{x} : Slots());
    AddResults(refs, {}, cause, made, device);
  } else {
    Quiesce();
    Expect(model_.Called(met, own, program.Run(arguments).status()));
  }
}

// Sizes that come with the call, of which one in three does not fit: known when it runs.
void Sequence::RunPartial() {
  const bool stream = Chance(60), updates = Chance(50);
  const size_t at = AnyDevice(stream);
  const std::string& device = site_.devices[at];
  const Program& program = site_.Compiled(updates ? "partial update" : "partial", Partial(updates), at);
  const SlotPtr x = Pick(device, stream, /*any=*/true), y = Pick(device, stream);
  const auto m = static_cast<int64_t>(x->size());
  const int64_t choices[] = {1, m, 1 + Below(kMaxSize), kMaxSize + 1}, n = choices[Below(4)];
  Codes codes;
  if (m > kMaxSize || n > kMaxSize) codes.insert(v1::BAD_ARGUMENT);
  if (codes.empty() && n > m) codes.insert(v1::OUT_OF_BOUNDS);
  const bool fits = codes.empty();
  if (updates && x->Meets(*y)) codes.insert(v1::BAD_ARGUMENT);
  const MaybeCause met = First({x, y}), own = model_.Fault(codes);
  Values values = y->values();
  if (fits) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum = Plus(sum, x->values()[static_cast<size_t>(i)]);
    values = Added(values, sum);
  }
  const Arguments arguments = Arguments().Set(0, m).Set(1, n).Set(2, x->ref).Set(3, y->ref);
  if (stream) {
    busy_ = true;
    const MaybeCause cause = met.has_value() ? met : own;
    const auto refs = stream_->Execute(program, arguments);
    model_.Sent(cause, updates ? Slots{y} : Slots());
    AddResults(refs, {values}, cause, fits && AllMade({x, y}), device);
  } else {
    Quiesce();
    auto run = program.Run(arguments);
    Expect(model_.Called(met, own, run.status()));
    if (run.ok()) AddResults(*std::move(run), {values}, device);
  }
  if (updates && !met.has_value() && !own.has_value()) y->Overwrite(values);
}

// -- On several

void Sequence::RunSplit() {
  const bool stream = Chance(60), updates = Chance(50);
  Devices devices;
  Slots xs, ys;
  for (const size_t at : SeveralDevices()) {
    devices.push_back(site_.devices[at]);
    xs.push_back(Pick(devices.back(), stream));
    ys.push_back(Pick(devices.back(), stream));
  }
  std::string name = updates ? "split update" : "split";
  for (const std::string& device : devices) absl::StrAppend(&name, " ", device);
  const Program& program = site_.Compiled(name, Split(devices, updates), home_);
  Codes codes;
  Slots read = xs;
  const size_t wrong = Chance(15) ? Below(static_cast<uint32_t>(ys.size())) : ys.size();
  for (size_t i = 0; i < ys.size(); ++i) {
    if (i == wrong) {
      ys[i] = short_[site_.IndexOf(devices[i])];
      codes.insert(v1::BUFFER_SIZE_MISMATCH);
    }
    read.push_back(ys[i]);
    if (updates && xs[i]->Meets(*ys[i])) codes.insert(v1::BAD_ARGUMENT);
  }
  const MaybeCause met = First(read), own = model_.Fault(codes);
  const Arguments arguments = Arguments().Set(0, RefsOf(xs)).Set(1, RefsOf(ys));
  std::vector<Values> products, sums;
  Values total(kSize);
  for (size_t i = 0; i < xs.size(); ++i) {
    Values x = xs[i]->values(), y = ys[i]->values();
    y.resize(x.size());
    products.emplace_back(kSize);
    sums.emplace_back(kSize);
    for (size_t at = 0; at < x.size(); ++at) {
      products[i][at] = Plus(Times(x[at], y[at]), 5);
      sums[i][at] = Plus(x[at], y[at]);
      total[at] = Plus(total[at], x[at]);
    }
  }
  const MaybeCause cause = met.has_value() ? met : own;
  if (stream) {
    busy_ = true;
    const auto results = stream_->Execute(program, arguments);
    model_.Sent(cause, updates ? xs : Slots());
    for (size_t i = 0; i < results.size() && !updates; ++i) {
      const size_t at = i % devices.size();
      AddResults({results[i]}, {i < devices.size() ? products[at] : total}, cause, !own.has_value() && AllMade(read),
                 devices[at]);
    }
  } else {
    Quiesce();
    const bool by_value = Chance(30);
    auto run = program.Run(arguments, {.results = by_value ? v1::RESULT_INLINE : v1::RESULT_HANDLES});
    Expect(model_.Called(met, own, run.status()));
    if (run.ok() && !updates && by_value) {
      Values all;
      for (const Values& product : products) all.insert(all.end(), product.begin(), product.end());
      if (run->results[0].tensor.Values<int32_t>() != all) Expect("another product came by value");
      if (run->results[1].tensor.Values<int32_t>() != total) Expect("another total came by value");
    }
    for (size_t i = 0; run.ok() && !updates && !by_value && i < devices.size(); ++i) {
      KeepOwned(std::move(run->results[0].shards.shards[i]), products[i], devices[i]);
      KeepOwned(std::move(run->results[1].shards.shards[i]), total, devices[i]);
    }
  }
  for (size_t i = 0; updates && !cause.has_value() && i < xs.size(); ++i) xs[i]->Overwrite(sums[i]);
}

// -- Stopped

// A run in place by a client with a short timeout: what it leaves is nothing, all, or poison. In
// the first case it may still come, so the memory is given up.
void Sequence::Stop() {
  const size_t at = AnyDevice(false);
  const std::string& device = site_.devices[at];
  const bool fresh = Chance(50);
  const SlotPtr x = fresh ? Make(device, false, kSize) : Pick(device, false);
  const SlotPtr y = fresh ? Make(device, false, kSize) : Pick(device, false);
  if (x->Meets(*y)) return;
  Quiesce();
  const Program& untimed = site_.Compiled("long", Long(), at);
  const Arguments arguments = Arguments().Set(0, x->ref).Set(1, y->ref);
  if (const MaybeCause met = First({x, y}); met.has_value()) {
    return Expect(model_.Called(met, std::nullopt, untimed.Run(arguments).status()));
  }
  const auto& hasty = site_.hasty[at];
  const Program program(hasty[Below(static_cast<uint32_t>(hasty.size()))], untimed.graph(), untimed.options(),
                        untimed.compiled());
  const Values before = x->values(), after = Added(before, kLongAdds);
  const absl::Status status = program.Run(arguments).status();
  if (status.ok()) return x->Overwrite(after);
  if (!absl::IsDeadlineExceeded(status)) return Expect(absl::StrCat("a deadline passed: ", status.ToString()));
  const auto found = site_.clients[at]->Read(x->owned);
  if (!found.ok()) {
    ++stopped_;
    x->MarkPoisoned(Stopped());
    return Expect(model_.Called(Stopped(), std::nullopt, found.status()));
  }
  Values values(kSize);
  std::memcpy(values.data(), found->data(), found->size());
  if (values == after) return x->Overwrite(after);
  if (values != before) return Expect("half of a run was read");
  Drop(x->memory);
}

}  // namespace kiln::client
