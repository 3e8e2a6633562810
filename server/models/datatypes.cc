// Tested by server/models/infer_test.cc.
#include "server/models/datatypes.h"

#include <algorithm>
#include <iterator>

#include "inference/model_config.pb.h"

namespace kiln::server {
namespace {

constexpr Datatype kDatatypes[] = {
    {v1::BOOL, "BOOL", inference::TYPE_BOOL, 1, "bool_contents"},
    {v1::INT8, "INT8", inference::TYPE_INT8, 1, "int_contents"},
    {v1::INT16, "INT16", inference::TYPE_INT16, 2, "int_contents"},
    {v1::INT32, "INT32", inference::TYPE_INT32, 4, "int_contents"},
    {v1::INT64, "INT64", inference::TYPE_INT64, 8, "int64_contents"},
    {v1::UINT8, "UINT8", inference::TYPE_UINT8, 1, "uint_contents"},
    {v1::UINT16, "UINT16", inference::TYPE_UINT16, 2, "uint_contents"},
    {v1::UINT32, "UINT32", inference::TYPE_UINT32, 4, "uint_contents"},
    {v1::UINT64, "UINT64", inference::TYPE_UINT64, 8, "uint64_contents"},
    {v1::FLOAT16, "FP16", inference::TYPE_FP16, 2, ""},
    {v1::FLOAT32, "FP32", inference::TYPE_FP32, 4, "fp32_contents"},
    {v1::FLOAT64, "FP64", inference::TYPE_FP64, 8, "fp64_contents"},
    {v1::BFLOAT16, "BF16", inference::TYPE_BF16, 2, ""},
};

}  // namespace

const Datatype* DatatypeOf(v1::DType dtype) {
  const auto* const row = std::find_if(std::begin(kDatatypes), std::end(kDatatypes),
                                       [dtype](const Datatype& each) { return each.dtype == dtype; });
  return row == std::end(kDatatypes) ? nullptr : row;
}

}  // namespace kiln::server
