// Shapes, and what the client asks about the scalar types.
#ifndef KILN_CLIENT_CPP_ARRAYS_DTYPE_H_
#define KILN_CLIENT_CPP_ARRAYS_DTYPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype_names.h"
#include "kiln/v1/dtype.pb.h"

namespace kiln::client {

using Shape = std::vector<int64_t>;

// Bytes of one element in memory; 0 for what is never stored (void, weak).
int64_t DTypeSize(v1::DType dtype);

bool IsFloat(v1::DType dtype);
bool IsSigned(v1::DType dtype);
// A signed or unsigned integer; bool is none.
bool IsInteger(v1::DType dtype);

// The greatest integer the type holds; for integers only.
uint64_t GreatestInteger(v1::DType dtype);

// "(2, 3)", "(7,)", "()".
std::string ShapeText(const Shape& shape);
// "float32 (2, 3)".
std::string TypeText(v1::DType dtype, const Shape& shape);

// The product of the axes, or none if one is negative or it exceeds int64.
std::optional<int64_t> ElementCount(const Shape& shape);
// Bytes of such a tensor in memory, or none likewise.
std::optional<int64_t> ByteCount(v1::DType dtype, const Shape& shape);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_ARRAYS_DTYPE_H_
