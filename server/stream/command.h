// One command of a stream, from its arrival until it is answered.
#ifndef KILN_SERVER_STREAM_COMMAND_H_
#define KILN_SERVER_STREAM_COMMAND_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "base/graph/graph_hash.h"
#include "kiln/v1/kernel_service.pb.h"
#include "server/engine/buffers.h"
#include "server/engine/memory/poison.h"
#include "server/trace/traces.h"

namespace kiln::server {

class CommandStream;

// What the client is told, once. A failure is a status here: the connection decides
// how it is written.
struct Answer {
  v1::SubmitResponse message;
  // Not OK: the message's event is `failed`, and lacks its status.
  absl::Status failure;
  Charge charge;

  uint64_t bytes() const { return sizeof(Answer) + message.data().size(); }
};
using AnswerPtr = std::shared_ptr<const Answer>;

// "execute", by its field's number in SubmitRequest; empty if there is none.
absl::string_view CommandName(int field);

struct Command {
  v1::SubmitRequest request;
  // Of the request's graph, if it was hashed before the command began: a large one waits for a thread of its own, and
  // whichever thread ends the command's wait need not.
  std::optional<GraphHash> hashed;
  absl::Time arrived;
  // For traces: the ids, and the row of the RPC that it came by; then when its parts were.
  CallTrace trace;
  uint16_t method = 0;
  NotedParts parts;
  // What it brought and the server keeps for it.
  uint64_t payload_bytes = 0;
  // Held while it is under way, so that a server that stops waits for it.
  std::shared_ptr<const void> guard;
  Charge in_flight, payload;  // go before the guard does
  std::shared_ptr<CommandStream> stream;

  Touched touched;
  // Whether its names are reserved, if it is begun a second time, and whether it may not
  // be begun another.
  bool reserved = false;
  bool tried = false;

  // What a read reads, and how far it has come.
  Buffers::Range read;
  uint64_t next_byte = 0;
  // Parts of it that its device's queue still has, and one for the part that submits.
  std::atomic<int> pieces_under_way{0};
  // An execution whose program is there.
  bool started = false;

  bool done = false;
  absl::Time ended;
  absl::Status status;
  // As its client is told: its own failure, or that of its cause.
  absl::StatusCode outcome = absl::StatusCode::kOk;
  // That failure, if commands before it are not done: what it has not made is poisoned by it already.
  CausePtr failure;
  absl::InlinedVector<std::shared_ptr<Answer>, 1> answers;
  // How many of these, from the first on, may go out before the command is done; and
  // whether any has.
  int ready = 0;
  bool answered = false;
  // What its answers will take that are not made or have not gone out.
  uint64_t coming_bytes = 0;

  // A new answer, or a piece of it.
  Answer& AddAnswer() {
    answers.push_back(std::make_shared<Answer>());
    answers.back()->message.set_command_id(request.command_id());
    return *answers.back();
  }
};

}  // namespace kiln::server

#endif  // KILN_SERVER_STREAM_COMMAND_H_
