// Whether an answer is the one that was recorded, bit for bit.
#ifndef KILN_CLIENT_REPLAY_COMPARE_H_
#define KILN_CLIENT_REPLAY_COMPARE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "google/protobuf/message.h"
#include "kiln/v1/dtype.pb.h"

namespace kiln::replay {

struct Mismatch {
  std::string where;     // "results[0].tensor.data[17]"
  std::string recorded;  // as text
  std::string replayed;
};

// Of two values, or parts of values whose elements before `first_byte` are behind: their
// first element that differs. Without a dtype, elements are bytes.
absl::optional<Mismatch> CompareData(absl::string_view recorded, absl::string_view replayed, v1::DType dtype,
                                     uint64_t first_byte);

// Of two answers: values, types and shapes, and which results there are. Not how long it
// took, what it cost, or what things are called.
absl::optional<Mismatch> CompareAnswers(const google::protobuf::Message& recorded,
                                        const google::protobuf::Message& replayed);

}  // namespace kiln::replay

#endif  // KILN_CLIENT_REPLAY_COMPARE_H_
