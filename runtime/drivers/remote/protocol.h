// What rank 0 and the ranks that work for it say to each other.
//
// A command goes to a lane: each device has one, which does its commands in the order
// in which they come, and one more does what need not wait for any device. Every command
// is answered, by its number. What is too long for a message goes as a parcel of the
// command's own tag, between the command and its answer.
//
// Neither side believes the other: a command names memory that its rank has set aside, and
// modules that it has loaded, or is answered with INTERNAL_FAULT; who sends what is no message
// is taken for dead. What a module does once it is launched is its code's affair, which rank 0
// has compiled.
#ifndef KILN_RUNTIME_DRIVERS_REMOTE_PROTOCOL_H_
#define KILN_RUNTIME_DRIVERS_REMOTE_PROTOCOL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/target.pb.h"
#include "runtime/cluster/packing.h"
#include "runtime/cluster/transport.h"

namespace kiln::runtime::remote {

enum class MessageKind : uint8_t {
  kHello,    // to rank 0, once: Hello
  kCommand,  // lane, number, Command, and what belongs to it
  kStop,     // lane, number: the launches of that command are not wanted any more
  kAnswer,   // number, status, and what belongs to the command
};

// Addresses are the other process's.
enum class Command : uint8_t {
  kWrite,   // address, bytes; then they themselves, or a count and lengths of parcels
  kRead,    // address, bytes; answered with them, or by a parcel
  kFill,    // address, bytes, pattern
  kClear,   // address, bytes: zeroes, and whole pages are given back
  kCopy,    // from, to, bytes
  kLoad,    // device, Executable; answered with the module's number
  kUnload,  // module
  kLaunch,  // module, nanoseconds left (0: no end), steps: kernel and operands; answered with how many ran
  kTask,    // bytes that the task handler interprets
};

// Transfers of up to so many bytes travel in the message.
inline constexpr uint64_t kMaxBytesInMessage = 16 << 10;

// Of a command's parcels. Half of all tags are the commands'.
inline uint32_t TagOf(uint64_t number) {
  return cluster::kTagEnd / 2 + static_cast<uint32_t>(number % (cluster::kTagEnd / 2));
}

// What a rank has to offer.
struct Hello {
  struct Device {
    std::string description;
    v1::Target target;
    // Addresses that rank 0 may hand out, and how many bytes of them at a time.
    uint64_t base = 0;
    uint64_t reach = 0;
    uint64_t limit_bytes = 0;
  };
  std::string host;
  int64_t process = 0;
  std::vector<Device> devices;
};

inline cluster::Packer NewMessage(MessageKind kind) { return cluster::Packer().Number(kind); }

std::string Pack(const Hello& hello);
// INTERNAL_FAULT if it is none, or offers memory of which there cannot be so much.
absl::StatusOr<Hello> UnpackHello(cluster::Unpacker& message);

// A status with its detail.
void PackStatus(const absl::Status& status, cluster::Packer& message);
// What is no status is INTERNAL_FAULT.
absl::Status UnpackStatus(cluster::Unpacker& message);

}  // namespace kiln::runtime::remote

#endif  // KILN_RUNTIME_DRIVERS_REMOTE_PROTOCOL_H_
