// Handles of a capture, and what they are called where it is played.
//
// What clients named has its name again. What the server named, it names anew: a handle in
// a captured answer is the one at the same place of the new answer.
#ifndef KILN_CLIENT_PLAY_HANDLES_H_
#define KILN_CLIENT_PLAY_HANDLES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "google/protobuf/message.h"
#include "kiln/v1/dtype.pb.h"

namespace kiln::play {

// Not for several threads.
class Handles {
 public:
  // Puts new handles into the place of captured ones, wherever a message of the protocol
  // has handles.
  void Translate(google::protobuf::Message& message) const;

  // Takes note of the handles in two answers to the same request.
  void Learn(const google::protobuf::Message& captured, const google::protobuf::Message& played);

  // What is known of captured handles, for reports.
  struct Content {
    v1::DType dtype = v1::DTYPE_UNSPECIFIED;
    std::string program;  // whose result it is: a graph's hash as hex
  };
  // Good until the next content().
  Content& content(uint64_t captured) { return contents_[captured]; }
  // `to` has what `from` has.
  void NoteCopy(uint64_t from, uint64_t to) {
    std::string program = content(from).program;
    content(to).program = std::move(program);
  }

 private:
  absl::flat_hash_map<uint64_t, uint64_t> played_;
  absl::flat_hash_map<uint64_t, Content> contents_;
};

}  // namespace kiln::play

#endif  // KILN_CLIENT_PLAY_HANDLES_H_
