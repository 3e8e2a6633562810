// Whether an answer is the one that was captured, bit for bit.
#ifndef KILN_CLIENT_PLAY_COMPARE_H_
#define KILN_CLIENT_PLAY_COMPARE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "google/protobuf/message.h"
#include "kiln/v1/dtype.pb.h"

namespace kiln::play {

struct Mismatch {
  std::string where;     // "results[0].tensor.data[17]"
  std::string captured;  // as text
  std::string played;
};

// Of two values, or parts of values whose elements before `first_byte` are behind: their
// first element that differs. Without a dtype, elements are bytes.
absl::optional<Mismatch> CompareData(absl::string_view captured, absl::string_view played, v1::DType dtype,
                                     uint64_t first_byte);

// Of two answers: values, types and shapes, and which results there are. Not how long it
// took, what it cost, or what things are called.
absl::optional<Mismatch> CompareAnswers(const google::protobuf::Message& captured,
                                        const google::protobuf::Message& played);

}  // namespace kiln::play

#endif  // KILN_CLIENT_PLAY_COMPARE_H_
