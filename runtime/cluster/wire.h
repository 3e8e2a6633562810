// How bytes go from one process of a job to another: what an MPI library does, and no
// more of it than that.
//
// A job is `size` processes, its ranks. A transfer is a message, which comes whether it is
// awaited or not and says itself how long it is, or a parcel, which goes from memory to
// memory that the receiver has named, of a length that both know. Between two ranks,
// messages keep their order, and so do parcels of one tag.
#ifndef KILN_RUNTIME_CLUSTER_WIRE_H_
#define KILN_RUNTIME_CLUSTER_WIRE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::runtime::cluster {

struct Message {
  uint32_t from = 0;
  std::string bytes;
};

// All by one thread, the one that made it. No call waits for another rank. UNAVAILABLE
// where the network says that a rank is gone.
class Wire {
 public:
  // A transfer under way. Never 0.
  using Request = uint64_t;

  virtual ~Wire() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;

  // Begins. The memory must stay, and for Receive be left alone, until Test says true.
  virtual absl::StatusOr<Request> SendMessage(uint32_t to, absl::string_view bytes) = 0;
  virtual absl::StatusOr<Request> Send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes) = 0;
  virtual absl::StatusOr<Request> Receive(uint32_t from, uint32_t tag, void* to, uint64_t bytes) = 0;
  // Whether it has ended. With true, or an error, the request is no more.
  virtual absl::StatusOr<bool> Test(Request request) = 0;
  // A receipt that is not wanted any more: it ends soon, whether something comes or not,
  // unless the other rank is dead. Its memory must stay until Test says that it has.
  virtual void Cancel(Request request) = 0;
  // Gives a request up; it is no more. Its memory is not looked at again unless the
  // other rank still acts: one that is dead does not, and a send that no rank will ever
  // ask for is not looked at either.
  virtual void Abandon(Request request) = 0;

  // The next message that has come, if there is one.
  virtual absl::StatusOr<bool> TakeMessage(Message& message) = 0;

  // Leaves the job. `together`: all ranks do so now, and it may wait for them.
  virtual void Close(bool together) = 0;
};

}  // namespace kiln::runtime::cluster

#endif  // KILN_RUNTIME_CLUSTER_WIRE_H_
