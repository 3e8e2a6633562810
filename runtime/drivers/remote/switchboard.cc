#include "runtime/drivers/remote/switchboard.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::runtime::remote {
namespace {

// How often one who waits looks whether the answer is still wanted.
constexpr absl::Duration kLook = absl::Milliseconds(5);

}  // namespace

absl::StatusOr<std::shared_ptr<Switchboard>> Switchboard::Open(
    const std::function<absl::StatusOr<std::unique_ptr<cluster::Wire>>()>& make_wire, absl::Duration silence,
    std::function<void(uint32_t rank, const absl::Status& why)> died) {
  std::shared_ptr<Switchboard> board(new Switchboard());
  board->died_ = std::move(died);
  cluster::TransportOptions options;
  options.silence = silence;
  options.reader = [b = board.get()](cluster::Message message) { return b->Read(std::move(message)); };
  options.died = [b = board.get()](uint32_t rank, const absl::Status& why) { b->Died(rank, why); };
  options.lost = [b = board.get()](const std::string& why) {
    if (b->died_ != nullptr) b->died_(0, absl::UnavailableError(why));
  };
  KILN_ASSIGN_OR_RETURN(board->transport_, cluster::Transport::Open(make_wire, std::move(options)));
  return board;
}

absl::StatusOr<std::vector<Hello>> Switchboard::Gather(absl::Duration timeout) {
  const uint32_t size = transport_->size();
  const auto all = [&] {
    mutex_.AssertReaderHeld();
    return hellos_.size() + 1 == size || !dead_.empty();
  };
  std::vector<Hello> hellos(size);
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&all), timeout);
  for (uint32_t rank = 1; rank < size; ++rank) {
    const auto found = hellos_.find(rank);
    if (found == hellos_.end()) {
      v1::ErrorDetail detail;
      detail.set_code(v1::PARTICIPANT_MISSING);
      detail.set_field(absl::StrCat("rank ", rank));
      return MakeError(
          detail, absl::StrCat("rank ", rank, dead_.count(rank) != 0 ? " died as it came up" : " did not come up"));
    }
    hellos[rank] = std::move(found->second);
  }
  return hellos;
}

uint64_t Switchboard::Begin(uint32_t rank, uint32_t lane, Command command, std::string rest) {
  uint64_t number;
  {
    absl::MutexLock lock(&mutex_);
    number = ++last_;
    Call& call = calls_[number];
    call.rank = rank;
    call.lane = lane;
  }
  // Whoever dies from now on is told of the call.
  if (absl::Status life = transport_->Life(rank); !life.ok()) {
    Died(rank, life);
  } else {
    transport_->Tell(rank,
                     NewMessage(MessageKind::kCommand).Number(lane).Number(number).Number(command).Rest(rest).Take());
  }
  return number;
}

absl::Status Switchboard::End(uint64_t number, std::string* answer, const hal::LaunchControl& control) {
  const bool may_stop = control.cancelled != nullptr || control.deadline != absl::InfiniteFuture();
  bool stopped = false;
  absl::MutexLock lock(&mutex_);
  Call& call = calls_[number];  // stays where it is
  const auto ended = [&call] { return call.ended; };
  while (!mutex_.AwaitWithTimeout(absl::Condition(&ended), may_stop ? kLook : absl::InfiniteDuration())) {
    if (stopped || control.Check().ok()) continue;
    stopped = true;
    transport_->Tell(call.rank, NewMessage(MessageKind::kStop).Number(call.lane).Number(number).Take());
  }
  absl::Status status = std::move(call.status);
  if (answer != nullptr) *answer = std::move(call.answer);
  calls_.erase(number);
  return status;
}

void Switchboard::Forget(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  const auto found = calls_.find(number);
  if (found->second.ended) {
    calls_.erase(found);
  } else {
    found->second.forgotten = true;
  }
}

absl::Status Switchboard::Read(cluster::Message message) {
  cluster::Unpacker unpacker(message.bytes);
  const auto kind = unpacker.Number<MessageKind>();
  absl::MutexLock lock(&mutex_);
  if (kind == MessageKind::kHello) {
    KILN_ASSIGN_OR_RETURN(Hello hello, UnpackHello(unpacker));
    if (!hellos_.emplace(message.from, std::move(hello)).second) return cluster::BadMessage("is a second hello");
    return absl::OkStatus();
  }
  const auto number = unpacker.Number<uint64_t>();
  if (kind != MessageKind::kAnswer || !unpacker.ok()) return cluster::BadMessage("is no answer");
  const auto found = calls_.find(number);
  if (found == calls_.end()) return absl::OkStatus();
  Call& call = found->second;
  if (call.rank != message.from) return cluster::BadMessage("answers for another rank");
  call.status = UnpackStatus(unpacker);
  call.answer = std::string(unpacker.Rest());
  call.ended = true;
  if (call.forgotten) calls_.erase(found);
  return absl::OkStatus();
}

void Switchboard::Died(uint32_t rank, const absl::Status& why) {
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = calls_.begin(); it != calls_.end();) {
      Call& call = it->second;
      if (call.rank == rank && !call.ended) {
        call.status = why;
        call.ended = true;
      }
      it = call.ended && call.forgotten ? calls_.erase(it) : std::next(it);
    }
    first = dead_.insert(rank).second;
  }
  if (first && died_ != nullptr) died_(rank, why);
}

}  // namespace kiln::runtime::remote
