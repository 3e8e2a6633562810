// Other people's headers that most files read. .bazelrc puts it before each file of ours;
// GCC reads the whole from one compiled image, and so does Clang with --config=sanitizers. A
// file still includes what it uses: Clang's other builds (--config=asan, tsan) compile the
// same sources without this header.
#ifndef KILN_THIRD_PARTY_PRECOMPILED_SYSTEM_H_
#define KILN_THIRD_PARTY_PRECOMPILED_SYSTEM_H_

#if !defined(__clang__) || defined(KILN_PRECOMPILE)
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "google/protobuf/generated_message_util.h"
#include "google/protobuf/map_field.h"
#include "google/protobuf/message.h"
#include "google/protobuf/repeated_field.h"
#endif

#endif  // KILN_THIRD_PARTY_PRECOMPILED_SYSTEM_H_
