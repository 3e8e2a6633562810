// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "models/onnx/external_data.h"
#include "onnx/onnx.pb.h"

namespace kiln::onnx {
namespace {

using ::onnx::TensorProto;

struct TypeRow {
  int data_type;
  const char* name;
  v1::DType dtype;
};

constexpr TypeRow kTypes[] = {
    {TensorProto::FLOAT, "float32", v1::FLOAT32},
    {TensorProto::UINT8, "uint8", v1::UINT8},
    {TensorProto::INT8, "int8", v1::INT8},
    {TensorProto::UINT16, "uint16", v1::UINT16},
    {TensorProto::INT16, "int16", v1::INT16},
    {TensorProto::INT32, "int32", v1::INT32},
    {TensorProto::INT64, "int64", v1::INT64},
    {TensorProto::STRING, "string", v1::DTYPE_UNSPECIFIED},
    {TensorProto::BOOL, "bool", v1::BOOL},
    {TensorProto::FLOAT16, "float16", v1::FLOAT16},
    {TensorProto::DOUBLE, "float64", v1::FLOAT64},
    {TensorProto::UINT32, "uint32", v1::UINT32},
    {TensorProto::UINT64, "uint64", v1::UINT64},
    {TensorProto::COMPLEX64, "complex64", v1::DTYPE_UNSPECIFIED},
    {TensorProto::COMPLEX128, "complex128", v1::DTYPE_UNSPECIFIED},
    {TensorProto::BFLOAT16, "bfloat16", v1::BFLOAT16},
    {TensorProto::FLOAT8E4M3FN, "float8_e4m3", v1::FLOAT8_E4M3},
    {TensorProto::FLOAT8E4M3FNUZ, "float8_e4m3_fnuz", v1::FLOAT8_E4M3_FNUZ},
    {TensorProto::FLOAT8E5M2, "float8_e5m2", v1::FLOAT8_E5M2},
    {TensorProto::FLOAT8E5M2FNUZ, "float8_e5m2_fnuz", v1::FLOAT8_E5M2_FNUZ},
    {TensorProto::UINT4, "uint4", v1::DTYPE_UNSPECIFIED},
    {TensorProto::INT4, "int4", v1::DTYPE_UNSPECIFIED},
    {TensorProto::FLOAT4E2M1, "float4_e2m1", v1::DTYPE_UNSPECIFIED},
    {TensorProto::FLOAT8E8M0, "float8_e8m0", v1::DTYPE_UNSPECIFIED},
    {TensorProto::UINT2, "uint2", v1::DTYPE_UNSPECIFIED},
    {TensorProto::INT2, "int2", v1::DTYPE_UNSPECIFIED},
    {TensorProto::FLOAT6E2M3, "float6_e2m3", v1::DTYPE_UNSPECIFIED},
    {TensorProto::FLOAT6E3M2, "float6_e3m2", v1::DTYPE_UNSPECIFIED},
};

// Integers of which several lie in a byte, the first in its lowest bits.
struct PackedRow {
  int data_type;
  v1::DType dtype;  // of one of them as a byte
  int bits;
};

constexpr PackedRow kPacked[] = {
    {TensorProto::UINT4, v1::UINT8, 4},
    {TensorProto::INT4, v1::INT8, 4},
    {TensorProto::UINT2, v1::UINT8, 2},
    {TensorProto::INT2, v1::INT8, 2},
};

const PackedRow* PackedOf(int data_type) {
  for (const PackedRow& row : kPacked) {
    if (row.data_type == data_type) return &row;
  }
  return nullptr;
}

// So many of them, each in a byte of its own.
std::string Unpacked(const std::string& packed, int64_t count, const PackedRow& row) {
  std::string bytes(static_cast<size_t>(count), '\0');
  const int mask = (1 << row.bits) - 1, sign = row.dtype == v1::INT8 ? 1 << (row.bits - 1) : 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t bit = i * static_cast<size_t>(row.bits);
    const int value = (static_cast<uint8_t>(packed[bit / 8]) >> (bit % 8)) & mask;
    bytes[i] = static_cast<char>((value ^ sign) - sign);
  }
  return bytes;
}

absl::Status Malformed(const TensorProto& tensor, absl::string_view reason) {
  v1::ErrorDetail detail;
  detail.set_code(v1::MALFORMED_MESSAGE);
  detail.set_field(Shown(tensor.name()));
  return MakeError(detail, absl::StrCat("tensor \"", Shown(tensor.name()), "\": ", reason));
}

// The list of a field, each element made as wide as the dtype is. Of floats narrower than
// 32 bits, int32_data has the bit patterns.
template <typename To, typename List>
std::string Narrowed(const List& list) {
  std::string bytes(static_cast<size_t>(list.size()) * sizeof(To), '\0');
  for (int i = 0; i < list.size(); ++i) {
    const To value = static_cast<To>(list[i]);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(To), &value, sizeof(To));
  }
  return bytes;
}

std::string FromLists(const TensorProto& tensor, v1::DType dtype) {
  switch (tensor.data_type()) {
    case TensorProto::FLOAT: return Narrowed<float>(tensor.float_data());
    case TensorProto::DOUBLE: return Narrowed<double>(tensor.double_data());
    case TensorProto::INT64: return Narrowed<int64_t>(tensor.int64_data());
    case TensorProto::UINT64: return Narrowed<uint64_t>(tensor.uint64_data());
    case TensorProto::UINT32: return Narrowed<uint32_t>(tensor.uint64_data());
    default: break;
  }
  const int64_t size = client::DTypeSize(dtype);
  if (size == 1) return Narrowed<uint8_t>(tensor.int32_data());
  if (size == 2) return Narrowed<uint16_t>(tensor.int32_data());
  return Narrowed<int32_t>(tensor.int32_data());
}

absl::StatusOr<std::string> External(const TensorProto& tensor, int64_t bytes, const TensorSource& source) {
  std::string location;
  int64_t offset = 0, length = bytes;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if ((entry.key() == "offset" && !absl::SimpleAtoi(entry.value(), &offset)) ||
        (entry.key() == "length" && !absl::SimpleAtoi(entry.value(), &length))) {
      return Malformed(tensor, absl::StrCat("external data's ", entry.key(), " is no number"));
    }
  }
  if (!source.has_folder) return Malformed(tensor, "its data is in another file, and this model has no folder");
  if (length != bytes) return Malformed(tensor, absl::StrCat("external data of ", length, " bytes, not ", bytes));
  return ReadExternal(source.folder, location, offset, length);
}

}  // namespace

absl::StatusOr<v1::DType> DTypeOf(int data_type) {
  for (const TypeRow& row : kTypes) {
    if (row.data_type == data_type && row.dtype != v1::DTYPE_UNSPECIFIED) return row.dtype;
  }
  return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("tensors of ", DataTypeName(data_type), " are not taken"));
}

std::string DataTypeName(int data_type) {
  for (const TypeRow& row : kTypes) {
    if (row.data_type == data_type) return row.name;
  }
  return absl::StrCat("data type ", data_type);
}

int DataTypeOf(v1::DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row.data_type;
  }
  return 0;
}

std::string Shown(const std::string& name) {
  size_t length = std::min<size_t>(name.size(), 100);
  while (length > 0 && length < name.size() && (static_cast<uint8_t>(name[length]) & 0xC0) == 0x80) --length;
  return name.substr(0, length);
}

absl::StatusOr<client::HostTensor> ReadTensor(const TensorProto& tensor, TensorSource& source, bool* narrow) {
  const PackedRow* packed = narrow != nullptr ? PackedOf(tensor.data_type()) : nullptr;
  if (narrow != nullptr) *narrow = packed != nullptr;
  v1::DType dtype = packed != nullptr ? packed->dtype : v1::DTYPE_UNSPECIFIED;
  if (packed == nullptr) {
    KILN_ASSIGN_OR_RETURN(dtype, DTypeOf(tensor.data_type()));
  }
  client::Shape shape(tensor.dims().begin(), tensor.dims().end());
  if (static_cast<int64_t>(shape.size()) > source.most_rank) {
    return TooLarge("rank", static_cast<uint64_t>(source.most_rank), shape.size(), "too many axes");
  }
  const std::optional<int64_t> bytes = client::ByteCount(dtype, shape);
  if (!bytes) return Malformed(tensor, "its shape is of no tensor");
  if (*bytes > source.bytes_left) {
    return TooLarge("constant_bytes", static_cast<uint64_t>(source.most_bytes), static_cast<uint64_t>(*bytes),
                    absl::StrCat("tensor \"", Shown(tensor.name()), "\" is ", client::TypeText(dtype, shape)));
  }
  // What the file has of it. (It fits: there are no more bytes than are left.)
  const int64_t stored = packed != nullptr ? (*bytes * packed->bits + 7) / 8 : *bytes;
  std::string data;
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    KILN_ASSIGN_OR_RETURN(data, External(tensor, stored, source));
  } else {
    data = tensor.has_raw_data() ? tensor.raw_data() : FromLists(tensor, dtype);
  }
  if (static_cast<int64_t>(data.size()) != stored) {
    return Malformed(tensor,
                     absl::StrCat(client::TypeText(dtype, shape), " has ", stored, " bytes; there are ", data.size()));
  }
  if (packed != nullptr) data = Unpacked(data, *bytes, *packed);
  source.bytes_left -= *bytes;
  return client::HostTensor{dtype, std::move(shape), std::move(data)};
}

// Indices are one number an element, its place in row-major order, or one for each axis.
absl::StatusOr<client::HostTensor> ReadSparse(const ::onnx::SparseTensorProto& tensor, TensorSource& source) {
  KILN_ASSIGN_OR_RETURN(const client::HostTensor values, ReadTensor(tensor.values(), source));
  KILN_ASSIGN_OR_RETURN(const client::HostTensor indices, ReadTensor(tensor.indices(), source));
  client::HostTensor dense{values.dtype, client::Shape(tensor.dims().begin(), tensor.dims().end()), ""};
  const std::optional<int64_t> bytes = client::ByteCount(dense.dtype, dense.shape);
  const bool flat = indices.shape.size() == 1;
  const int64_t width = flat ? 1 : static_cast<int64_t>(dense.shape.size());
  if (!bytes || indices.dtype != v1::INT64 || values.shape.size() != 1 || indices.shape.empty() ||
      indices.shape[0] != values.shape[0] || (!flat && (indices.shape.size() != 2 || indices.shape[1] != width))) {
    return Malformed(tensor.values(), "a sparse tensor is (n,) values and (n,) or (n, rank) indices of int64");
  }
  if (*bytes > source.bytes_left) {
    return TooLarge("constant_bytes", static_cast<uint64_t>(source.most_bytes), static_cast<uint64_t>(*bytes),
                    "a sparse tensor is kept as a dense one");
  }
  source.bytes_left -= *bytes;
  dense.bytes.assign(static_cast<size_t>(*bytes), '\0');
  const int64_t size = client::DTypeSize(dense.dtype), count = *client::ElementCount(dense.shape);
  const std::vector<int64_t> places = indices.Values<int64_t>();
  for (int64_t i = 0; i < values.shape[0]; ++i) {
    int64_t place = flat ? places[i] : 0;
    for (int64_t axis = 0; !flat && axis < width; ++axis) {
      const int64_t at = places[i * width + axis];
      if (at < 0 || at >= dense.shape[axis]) return Malformed(tensor.values(), "an index outside of the tensor");
      place = place * dense.shape[axis] + at;
    }
    if (place < 0 || place >= count) return Malformed(tensor.values(), "an index outside of the tensor");
    std::memcpy(dense.bytes.data() + place * size, values.bytes.data() + i * size, static_cast<size_t>(size));
  }
  return dense;
}

}  // namespace kiln::onnx
