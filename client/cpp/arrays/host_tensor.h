// A tensor in the client's own memory: row-major, little-endian, no padding.
#ifndef KILN_CLIENT_CPP_ARRAYS_HOST_TENSOR_H_
#define KILN_CLIENT_CPP_ARRAYS_HOST_TENSOR_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "client/cpp/arrays/dtype.h"
#include "kiln/v1/tensor.pb.h"

namespace kiln::client {

// The dtype a C++ number has.
template <typename T>
constexpr v1::DType DTypeOf() {
  if constexpr (std::is_same_v<T, bool>) return v1::BOOL;
  if constexpr (std::is_same_v<T, float>) return v1::FLOAT32;
  if constexpr (std::is_same_v<T, double>) return v1::FLOAT64;
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    constexpr v1::DType kSigned[] = {v1::INT8, v1::INT16, v1::INT32, v1::INT64};
    constexpr v1::DType kUnsigned[] = {v1::UINT8, v1::UINT16, v1::UINT32, v1::UINT64};
    constexpr int kRow = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return std::is_signed_v<T> ? kSigned[kRow] : kUnsigned[kRow];
  }
  return v1::DTYPE_UNSPECIFIED;
}

struct HostTensor {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  Shape shape;
  std::string bytes;

  // `values` in row-major order, as many as the shape has elements.
  template <typename T>
  static HostTensor Of(Shape shape, const std::vector<T>& values) {
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no bytes; use uint8_t and set dtype");
    return {DTypeOf<T>(), std::move(shape),
            std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
  }
  template <typename T>
  static HostTensor Scalar(T value) {
    return {DTypeOf<T>(), {}, std::string(reinterpret_cast<const char*>(&value), sizeof(T))};
  }
  static HostTensor From(v1::Tensor tensor) {
    return {tensor.dtype(), Shape(tensor.shape().begin(), tensor.shape().end()), std::move(*tensor.mutable_data())};
  }

  // The elements; T must be as wide as the dtype.
  template <typename T>
  std::vector<T> Values() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_ARRAYS_HOST_TENSOR_H_
