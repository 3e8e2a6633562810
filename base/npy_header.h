// What NumPy's .npy files, versions 1 to 3, say of their one array.
#ifndef KILN_BASE_NPY_HEADER_H_
#define KILN_BASE_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/dtype.pb.h"

namespace kiln {

inline constexpr absl::string_view kNpyMagic("\x93NUMPY", 6);
// NumPy itself refuses longer ones by default.
inline constexpr size_t kMaxNpyHeader = 10000;

struct NpyHeader {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;  // not negative; their product may be anything
  size_t data_begin = 0;       // where in the file the array's bytes are
};

// From a file's first bytes, of which kMaxNpyHeader + 12 always suffice. Taken are
// little-endian arrays in C order of bool, int8 to int64, uint8 to uint64, float16,
// float32 and float64; for others INVALID_ARGUMENT says how NumPy makes a file that is.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view front);

// What a header calls a dtype: "<f4"; "" for one that NumPy has no name for.
absl::string_view NpyDescr(v1::DType dtype);

}  // namespace kiln

#endif  // KILN_BASE_NPY_HEADER_H_
