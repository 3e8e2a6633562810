// Whole messages over a stream socket, each after its length.
#ifndef KILN_SERVER_EXECUTORS_CHANNEL_H_
#define KILN_SERVER_EXECUTORS_CHANNEL_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/compile_worker/sealed_memory.h"

namespace kiln::server {

// One end of it; one thread at a time.
class Channel {
 public:
  // `max_bytes`: of a message that is taken.
  Channel(Descriptor socket, uint64_t max_bytes) : socket_(std::move(socket)), max_bytes_(max_bytes) {}

  // False if the other end is gone, or reads nothing for ten seconds.
  bool Send(absl::string_view message);

  enum class Came { kMessage, kNothing, kGone };
  // The next message, if it comes in time. Gone, too, is who says that he has more than
  // max_bytes to say.
  Came Receive(absl::Duration timeout, std::string& message);

  // Whether the other end has gone while nobody asked.
  bool HungUp() const;

 private:
  const Descriptor socket_;
  const uint64_t max_bytes_;
  std::string buffer_;  // of the next message, what has come
};

// Two ends of a socket for channels; both invalid if the system has none.
std::pair<Descriptor, Descriptor> SocketPair();

}  // namespace kiln::server

#endif  // KILN_SERVER_EXECUTORS_CHANNEL_H_
