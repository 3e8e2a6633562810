// Reads the tensors of ops_reference.txt.
#ifndef KILN_TESTS_CLIENT_REFERENCE_H_
#define KILN_TESTS_CLIENT_REFERENCE_H_

#include <map>
#include <string>
#include <vector>

#include "client/cpp/arrays/dtype.h"

namespace kiln::e2e {

struct ReferenceTensor {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;  // of inputs only
  client::Shape shape;
  std::vector<double> values;
};

struct Reference {
  std::vector<std::pair<std::string, ReferenceTensor>> inputs;
  std::map<std::string, ReferenceTensor> expect;
};

// Aborts on a file that is not what ops_reference.py writes.
Reference ReadReference(const std::string& path);

}  // namespace kiln::e2e

#endif  // KILN_TESTS_CLIENT_REFERENCE_H_
