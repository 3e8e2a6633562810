#include "client/cli/text/tensor_text.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/float_bits.h"

namespace kiln::cli {

using client::HostTensor;
using client::Shape;

// Every dtype is a little-endian word of its size.
std::vector<double> Elements(const HostTensor& tensor) {
  const size_t size = static_cast<size_t>(client::DTypeSize(tensor.dtype));
  std::vector<double> values;
  if (size == 0) return values;
  for (size_t at = 0; at + size <= tensor.bytes.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + at, size);
    if (client::IsFloat(tensor.dtype)) {
      values.push_back(BitsToFloat(tensor.dtype, bits));
    } else if (client::IsSigned(tensor.dtype)) {
      const int unused = static_cast<int>(64 - 8 * size);
      values.push_back(static_cast<double>(static_cast<int64_t>(bits << unused) >> unused));
    } else {
      values.push_back(tensor.dtype == v1::BOOL ? bits != 0 : static_cast<double>(bits));
    }
  }
  return values;
}

Summary Summarize(const HostTensor& tensor) {
  Summary summary;
  summary.least = std::numeric_limits<double>::infinity();
  summary.greatest = -summary.least;
  double sum = 0;
  int64_t count = 0;
  for (const double value : Elements(tensor)) {
    if (std::isnan(value)) {
      ++summary.nans;
      continue;
    }
    summary.least = std::min(summary.least, value);
    summary.greatest = std::max(summary.greatest, value);
    sum += value;
    ++count;
  }
  if (count == 0) summary.least = summary.greatest = std::numeric_limits<double>::quiet_NaN();
  summary.mean = sum / static_cast<double>(count);
  return summary;
}

std::string ElementsText(const HostTensor& tensor, size_t max_elements) {
  const std::vector<double> values = Elements(tensor);
  const bool cut = values.size() > max_elements;
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (cut && i == max_elements / 2) {
      absl::StrAppend(&text, " ...");
      i = values.size() - max_elements / 2;
    }
    absl::StrAppend(&text, i == 0 ? "" : " ", values[i]);
  }
  return text;
}

HostTensor RandomTensor(v1::DType dtype, const Shape& shape, std::mt19937_64& random) {
  HostTensor tensor{dtype, shape, ""};
  const int64_t count = client::ElementCount(shape).value_or(0);
  const size_t size = static_cast<size_t>(client::DTypeSize(dtype));
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = client::IsFloat(dtype) ? FloatToBits(dtype, normal(random))
                          : dtype == v1::BOOL    ? random() % 2
                                                 : random() % 10;
    tensor.bytes.append(reinterpret_cast<const char*>(&bits), size);
  }
  return tensor;
}

}  // namespace kiln::cli
