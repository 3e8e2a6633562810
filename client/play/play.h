// Sends a server what another one was sent, and compares what it answers.
//
// Calls go out one after the other, in the order of the capture: each has been answered
// before the next. So a difference comes of one call, not of two at once. What a client
// sent as a stream of commands is a stream again, of which each command is waited for.
#ifndef KILN_CLIENT_PLAY_PLAY_H_
#define KILN_CLIENT_PLAY_PLAY_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "base/capture/capture_file.h"
#include "client/cpp/transport/credentials.h"
#include "client/play/compare.h"

namespace kiln::play {

struct Difference {
  uint64_t call = 0;     // counted from 1
  std::string method;    // "KernelService.Execute"
  uint64_t command = 0;  // of a stream; else 0
  std::string program;   // a graph's hash as hex: whose result it is, if that is known
  Mismatch mismatch;
};

struct ProgramTime {
  uint64_t runs = 0;
  double device_us = 0;  // of all together
  double least_us = 0;
};

struct Report {
  uint64_t calls = 0;
  uint64_t commands = 0;  // of streams
  // Answers, and bytes of values among them, that were as captured; and answers that
  // depend on the clock or the machine.
  uint64_t equal = 0;
  uint64_t equal_bytes = 0;
  uint64_t passed_over = 0;
  uint64_t differences = 0;
  absl::optional<Difference> first;
  // By graph's hash as hex; replays of recorded sequences by "sequence " and their id.
  std::map<std::string, ProgramTime> programs;
};

// UNAVAILABLE if the server goes; DATA_LOSS if the capture makes no sense.
// `bearer` says who asks, in every call; it may be null.
absl::StatusOr<Report> Play(capture::Reader& reader, const std::shared_ptr<grpc::Channel>& channel,
                            client::BearerSource* bearer = nullptr);

}  // namespace kiln::play

#endif  // KILN_CLIENT_PLAY_PLAY_H_
