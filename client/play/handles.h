// Handles of a record, and what they are called where it is replayed.
//
// What clients named has its name again. What the server named, it names anew: a handle in
// a recorded answer is the one at the same place of the new answer.
#ifndef KILN_CLIENT_REPLAY_HANDLES_H_
#define KILN_CLIENT_REPLAY_HANDLES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "google/protobuf/message.h"
#include "kiln/v1/dtype.pb.h"

namespace kiln::replay {

// Not for several threads.
class Handles {
 public:
  // Puts new handles into the place of recorded ones, wherever a message of the protocol
  // has handles.
  void Translate(google::protobuf::Message& message) const;

  // Takes note of the handles in two answers to the same request.
  void Learn(const google::protobuf::Message& recorded, const google::protobuf::Message& replayed);

  // What is known of recorded handles, for reports.
  struct Content {
    v1::DType dtype = v1::DTYPE_UNSPECIFIED;
    std::string program;  // whose result it is: a graph's hash as hex
  };
  // Good until the next content().
  Content& content(uint64_t recorded) { return contents_[recorded]; }
  // `to` has what `from` has.
  void NoteCopy(uint64_t from, uint64_t to) {
    std::string program = content(from).program;
    content(to).program = std::move(program);
  }

 private:
  absl::flat_hash_map<uint64_t, uint64_t> replayed_;
  absl::flat_hash_map<uint64_t, Content> contents_;
};

}  // namespace kiln::replay

#endif  // KILN_CLIENT_REPLAY_HANDLES_H_
