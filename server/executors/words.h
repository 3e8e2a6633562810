// What the server says to an executor, and what that answers.
//
// An executor has one channel for what concerns its modules, and one for each device, on which
// launches go. The server waits for the answer to each message that has one before it sends the
// next. It believes no answer: an executor runs what a stranger sent.
#ifndef KILN_SERVER_EXECUTORS_WORDS_H_
#define KILN_SERVER_EXECUTORS_WORDS_H_

#include <cstdint>

namespace kiln::server {

// Which descriptor is what in an executor: the arena's memory, the channel for modules, and from
// there on those of its devices.
inline constexpr int kExecutorArena = 3, kExecutorModules = 4, kExecutorDevices = 5;

// The word by which a program knows that it is one. Behind it: devices, threads, the arena's
// address and bytes, bytes of memory beside that.
inline constexpr char kExecutorFlag[] = "--executor";
inline constexpr int kExecutorArguments = 7;

// First in a message on the channel for modules, then numbers as they are in memory:
//   kLoadModule    device (4), module (8), and an Executable; answered
//   kUnloadModule  module (8); not answered
// On a device's: steps (4), each module (8), kernel (4), how many operands (4), operands (8 each);
// answered.
inline constexpr char kLoadModule = 'L', kUnloadModule = 'U';

// First in an answer; then, of a launch, how many steps ended well (4); then why, for people.
// An executor that is ready to begin says kWell unasked on the channel for modules.
inline constexpr char kWell = 'D', kStopped = 'S', kFailed = 'F';

inline constexpr uint64_t kMaxAnswerBytes = 8 << 10;

}  // namespace kiln::server

#endif  // KILN_SERVER_EXECUTORS_WORDS_H_
