#include "runtime/cluster/transport.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace kiln::runtime::cluster {
namespace {

// The first byte of a message.
constexpr char kForReader = 'm';
constexpr char kBeat = 'b';     // from rank 0 with a byte for every rank: whether it is dead
constexpr char kGoodbye = 'g';  // from rank 0, then whether all leave together
constexpr char kLeave = 'l';    // to rank 0: this rank ends

// A parcel's pieces, so that long ones take turns, and an int counts their bytes.
constexpr uint64_t kPiece = 64 << 20;

// How long, after the last thing that happened, the thread looks all the time, often, and
// then now and then.
constexpr std::chrono::microseconds kEager{100};
constexpr std::chrono::milliseconds kAwake{50};
constexpr absl::Duration kOften = absl::Microseconds(50);
constexpr absl::Duration kRarely = absl::Milliseconds(1);

constexpr int kBeatsInSilence = 20;

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> Transport::Open(
    const std::function<absl::StatusOr<std::unique_ptr<Wire>>()>& make_wire, TransportOptions options) {
  std::unique_ptr<Transport> transport(new Transport(std::move(options)));
  absl::Status opened;
  transport->thread_ = std::thread([&, p = transport.get()] { p->Main(make_wire, &opened); });
  pthread_setname_np(transport->thread_.native_handle(), "kiln-transport");
  {
    absl::MutexLock lock(&transport->mutex_);
    transport->mutex_.Await(absl::Condition(&transport->open_));
  }
  KILN_RETURN_IF_ERROR(opened);
  if (transport->options_.lost != nullptr) {
    transport->guard_ = std::thread([p = transport.get()] { p->Guard(); });
    pthread_setname_np(transport->guard_.native_handle(), "kiln-guard");
  }
  return transport;
}

Transport::~Transport() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  if (guard_.joinable()) guard_.join();
  thread_.join();
}

// Open MPI has been seen to go round in its events for ever, and then nobody within notices
// that rank 0 is dead. Twice, since a process that was stopped counts no loops either.
void Transport::Guard() {
  absl::MutexLock lock(&mutex_);
  for (int still = 0; still < 2;) {
    const uint64_t before = loops_.load(std::memory_order_relaxed);
    if (mutex_.AwaitWithTimeout(absl::Condition(&closing_), options_.silence)) return;
    still = loops_.load(std::memory_order_relaxed) == before ? still + 1 : 0;
  }
  options_.lost("MPI has not come back from a call");
}

void Transport::Tell(uint32_t to, std::string bytes) {
  bytes.insert(bytes.begin(), kForReader);
  absl::MutexLock lock(&mutex_);
  orders_.push_back({to, std::move(bytes), nullptr});
}

Transport::ParcelPtr Transport::Send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes) {
  return Begin(to, tag, static_cast<char*>(const_cast<void*>(from)), bytes, true);
}

Transport::ParcelPtr Transport::Receive(uint32_t from, uint32_t tag, void* to, uint64_t bytes) {
  return Begin(from, tag, static_cast<char*>(to), bytes, false);
}

Transport::ParcelPtr Transport::Begin(uint32_t peer, uint32_t tag, char* memory, uint64_t bytes, bool sends) {
  KILN_CHECK(peer < size_ && tag < kTagEnd);
  auto parcel = std::make_shared<Parcel>();
  parcel->peer = peer;
  parcel->tag = tag;
  parcel->memory = memory;
  parcel->bytes = bytes;
  parcel->sends = sends;
  parcel->left = static_cast<uint32_t>(std::max<uint64_t>(1, (bytes + kPiece - 1) / kPiece));
  absl::MutexLock lock(&mutex_);
  orders_.push_back({peer, {}, parcel});
  return parcel;
}

absl::Status Transport::Wait(const ParcelPtr& parcel, absl::Span<const uint32_t> watched) {
  const auto dead = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return std::find_if(watched.begin(), watched.end(),
                        [&](uint32_t rank) ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !life_[rank].ok(); });
  };
  const auto settled = [&] {
    mutex_.AssertReaderHeld();
    return parcel->left == 0 || dead() != watched.end();
  };
  const auto ended = [&] { return parcel->left == 0; };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&settled));
  if (parcel->left == 0) return parcel->outcome;
  absl::Status failure = life_[*dead()];
  parcel->unwanted = true;
  mutex_.Await(absl::Condition(&ended));
  return failure;
}

absl::Status Transport::Life(uint32_t rank) const {
  absl::MutexLock lock(&mutex_);
  return life_[rank];
}

void Transport::SetName(uint32_t rank, std::string name) {
  absl::MutexLock lock(&mutex_);
  names_[rank] = std::move(name);
}

void Transport::Bury(uint32_t rank, const std::string& how) {
  absl::MutexLock lock(&mutex_);
  if (rank == rank_ || !life_[rank].ok()) return;
  v1::ErrorDetail detail;
  detail.set_code(v1::PARTICIPANT_MISSING);
  detail.set_field(absl::StrCat("rank ", rank));
  life_[rank] = MakeError(detail, absl::StrCat(names_[rank], " is dead: ", how));
  died_.push_back(rank);
}

void Transport::Main(const std::function<absl::StatusOr<std::unique_ptr<Wire>>()>& make_wire, absl::Status* opened) {
  auto wire = make_wire();
  if (wire.ok() && (*wire)->size() > kMaxRanks) {
    wire = MakeError(v1::BAD_ARGUMENT, absl::StrCat((*wire)->size(), " ranks; at most ", kMaxRanks, " work together"));
  }
  {
    absl::MutexLock lock(&mutex_);
    *opened = wire.status();
    open_ = true;
    if (!wire.ok()) return;
    wire_ = *std::move(wire);
    rank_ = wire_->rank();
    size_ = wire_->size();
    life_.resize(size_);
    for (uint32_t rank = 0; rank < size_; ++rank) names_.push_back(absl::StrCat("rank ", rank));
  }
  Clock::time_point busy = Clock::now(), last_loop = busy;
  heard_.assign(size_, busy);
  next_beat_ = busy;
  const auto silence = absl::ToChronoNanoseconds(options_.silence);
  while (true) {
    const Clock::time_point now = Clock::now();
    if (rank_ != 0 && now - last_loop > silence && options_.lost != nullptr) {
      options_.lost("this process was stopped for longer than rank 0 waits");
    }
    last_loop = now;
    loops_.fetch_add(1, std::memory_order_relaxed);
    bool moved = TakeOrders();
    moved |= TestGoing();
    moved |= ReadMessages();
    Beat(now);
    Listen(now);
    if (moved) busy = now;
    {
      absl::MutexLock lock(&mutex_);
      if (closing_ && orders_.empty()) break;
    }
    Pause(now - busy);
  }
  Leave();
}

bool Transport::TakeOrders() {
  std::vector<Order> orders;
  {
    absl::MutexLock lock(&mutex_);
    orders.swap(orders_);
  }
  for (Order& order : orders) Start(std::move(order));
  return !orders.empty();
}

void Transport::Start(Order order) {
  if (order.parcel == nullptr) return StartMessage(order.to, std::move(order.message));
  const ParcelPtr parcel = std::move(order.parcel);
  const uint32_t pieces = parcel->left;  // nobody else counts until the first is begun
  for (uint32_t i = 0; i < pieces; ++i) {
    const uint64_t begin = i * kPiece, bytes = std::min(kPiece, parcel->bytes - begin);
    char* const memory = parcel->memory + begin;
    if (absl::Status life = Life(parcel->peer); !life.ok()) {
      Finish({0, parcel->peer, nullptr, parcel, false}, life);
      continue;
    }
    const auto request = parcel->sends ? wire_->Send(parcel->peer, parcel->tag, memory, bytes)
                                       : wire_->Receive(parcel->peer, parcel->tag, memory, bytes);
    if (request.ok()) {
      going_.push_back({*request, parcel->peer, nullptr, parcel, false});
    } else {
      Finish({0, parcel->peer, nullptr, parcel, false}, request.status());
    }
  }
}

void Transport::StartMessage(uint32_t to, std::string message) {
  if (!Life(to).ok()) return;
  auto kept = std::make_unique<std::string>(std::move(message));
  const auto request = wire_->SendMessage(to, *kept);
  if (!request.ok()) return Bury(to, std::string(request.status().message()));
  going_.push_back({*request, to, std::move(kept), nullptr, false});
}

void Transport::Finish(Going going, const absl::Status& status) {
  if (!status.ok()) Bury(going.peer, std::string(status.message()));
  if (going.parcel == nullptr) {
    if (!status.ok()) undelivered_.push_back(std::move(going.message));
    return;
  }
  absl::MutexLock lock(&mutex_);
  if (!status.ok()) going.parcel->outcome = life_[going.peer].ok() ? status : life_[going.peer];
  --going.parcel->left;
}

bool Transport::Unwanted(const Going& going) const {
  if (going.parcel == nullptr) return false;
  absl::MutexLock lock(&mutex_);
  return going.parcel->unwanted;
}

bool Transport::TestGoing() {
  bool moved = false;
  for (size_t i = 0; i < going_.size();) {
    Going& going = going_[i];
    absl::Status status = Life(going.peer);
    bool ended = !status.ok();
    if (!ended && Unwanted(going)) {
      if (going.parcel->sends) {
        // Nobody will ask for it.
        ended = true;
      } else if (!std::exchange(going.cancelled, true)) {
        // The other side may be in the middle of it.
        wire_->Cancel(going.request);
      }
    }
    if (ended) {
      wire_->Abandon(going.request);
    } else {
      const auto tested = wire_->Test(going.request);
      status = tested.status();
      ended = !tested.ok() || *tested;
    }
    if (!ended) {
      ++i;
      continue;
    }
    moved |= going.message == nullptr || (*going.message)[0] != kBeat;
    Going done = std::move(going);
    if (i + 1 < going_.size()) going_[i] = std::move(going_.back());
    going_.pop_back();
    Finish(std::move(done), status);
  }
  return moved;
}

bool Transport::ReadMessages() {
  Message message;
  bool moved = false;
  while (true) {
    const auto taken = wire_->TakeMessage(message);
    if (!taken.ok() || !*taken) return moved;
    Heard(message);
    if (message.from >= size_) message.bytes.clear();
    moved |= !message.bytes.empty() && message.bytes[0] != kBeat;
    if (!message.bytes.empty() && message.bytes[0] == kForReader && options_.reader != nullptr) {
      const uint32_t from = message.from;
      message.bytes.erase(0, 1);
      const absl::Status status = options_.reader(std::move(message));
      if (!status.ok()) Bury(from, std::string(status.message()));
    }
    message = Message();
  }
}

void Transport::Heard(const Message& message) {
  if (message.from >= size_) return;
  heard_[message.from] = Clock::now();
  if (message.bytes.empty()) return;
  // Only rank 0 speaks of others, and nobody to it so.
  const bool from_zero = message.from == 0 && rank_ != 0;
  switch (message.bytes[0]) {
    case kBeat:
      if (from_zero) ReadBeat(message.bytes);
      return;
    case kLeave: return Bury(message.from, "it has left the job");
    case kGoodbye:
      if (!from_zero || dismissed_) return;
      dismissed_ = true;
      together_ = message.bytes.size() > 1 && message.bytes[1] == 1;
      if (options_.goodbye != nullptr) options_.goodbye();
      return;
    default: return;
  }
}

void Transport::ReadBeat(absl::string_view bytes) {
  for (uint32_t rank = 1; rank < size_ && rank + 1 < bytes.size(); ++rank) {
    if (bytes[rank + 1] == 0) continue;
    if (rank == rank_ && options_.lost != nullptr) options_.lost("rank 0 takes this process for dead");
    Bury(rank, "so says rank 0");
  }
}

void Transport::Beat(Clock::time_point now) {
  if (now < next_beat_) return;
  next_beat_ = now + absl::ToChronoNanoseconds(options_.silence) / kBeatsInSilence;
  std::string beat(1, kBeat);
  if (rank_ != 0) return StartMessage(0, std::move(beat));
  for (uint32_t rank = 0; rank < size_; ++rank) beat.push_back(Life(rank).ok() ? 0 : 1);
  for (uint32_t rank = 1; rank < size_; ++rank) StartMessage(rank, beat);
}

void Transport::Listen(Clock::time_point now) {
  const auto silence = absl::ToChronoNanoseconds(options_.silence);
  const std::string said_nothing = absl::StrCat("it has said nothing for ", absl::FormatDuration(options_.silence));
  if (rank_ == 0) {
    for (uint32_t rank = 1; rank < size_; ++rank) {
      if (now - heard_[rank] > silence + silence / 4) Bury(rank, said_nothing);
    }
  } else if (now - heard_[0] > silence) {
    Bury(0, said_nothing);
  }
  std::vector<uint32_t> died;
  {
    absl::MutexLock lock(&mutex_);
    died.swap(died_);
  }
  for (uint32_t rank : died) {
    const absl::Status why = Life(rank);
    if (options_.died != nullptr) options_.died(rank, why);
    // With rank 0, or while the job ends, there is nobody left to work for.
    if (rank == 0 && options_.lost != nullptr && !dismissed_) options_.lost(std::string(why.message()));
    if (rank_ == 0) next_beat_ = now;
  }
}

void Transport::Pause(Clock::duration idle) {
  if (idle < kEager) {
    sched_yield();
    return;
  }
  const auto wanted = [this] {
    mutex_.AssertReaderHeld();
    return closing_ || !orders_.empty();
  };
  absl::MutexLock lock(&mutex_);
  // Somebody waits for a parcel.
  const bool awaited = std::any_of(going_.begin(), going_.end(), [](const Going& going) { return going.parcel; });
  mutex_.AwaitWithTimeout(absl::Condition(&wanted), awaited || idle < kAwake ? kOften : kRarely);
}

void Transport::Leave() {
  if (rank_ == 0) {
    for (uint32_t rank = 1; rank < size_; ++rank) together_ &= Life(rank).ok();
    for (uint32_t rank = 1; rank < size_; ++rank) StartMessage(rank, {kGoodbye, static_cast<char>(together_)});
  } else if (!dismissed_) {
    together_ = false;
    StartMessage(0, std::string(1, kLeave));
  }
  // What has been said goes out, unless those who should hear it are gone.
  const Clock::time_point until = Clock::now() + std::chrono::seconds(1);
  while (!going_.empty() && Clock::now() < until) {
    if (!TestGoing()) sched_yield();
  }
  wire_->Close(together_);
}

}  // namespace kiln::runtime::cluster
