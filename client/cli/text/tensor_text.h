// Tensors for people: what is in them, and made-up ones.
#ifndef KILN_CLIENT_CLI_TEXT_TENSOR_TEXT_H_
#define KILN_CLIENT_CLI_TEXT_TENSOR_TEXT_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "client/cpp/arrays/host_tensor.h"

namespace kiln::cli {

// The elements as doubles, whatever the dtype. 64-bit integers lose their low bits.
std::vector<double> Elements(const client::HostTensor& tensor);

struct Summary {
  double least = 0, greatest = 0, mean = 0;
  // These count for none of the above.
  int64_t nans = 0;
};
Summary Summarize(const client::HostTensor& tensor);

// "1 2 3 ... 98 99 100": all elements if there are few, else the first and last.
std::string ElementsText(const client::HostTensor& tensor, size_t max_elements);

// Floats are normally distributed, integers 0 to 9, bools either; the same for the
// same generator.
client::HostTensor RandomTensor(v1::DType dtype, const client::Shape& shape, std::mt19937_64& random);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_TENSOR_TEXT_H_
