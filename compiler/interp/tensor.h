// Tensors in host memory: as a caller has them, and as the interpreter works on
// them.
#ifndef KILN_COMPILER_INTERP_TENSOR_H_
#define KILN_COMPILER_INTERP_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/uop.h"

namespace kiln::compiler {

// Row-major elements, little-endian, as the wire and the devices have them.
struct HostTensor {
  DType dtype = DType::kNone;
  Shape shape;
  std::string bytes;
};

// One 64-bit cell an element, in ConstArg's form, and whether it is there at all
// or Invalid (whose bits are 0).
struct Tensor {
  DType dtype = DType::kNone;
  Shape shape;
  std::vector<uint64_t> bits;
  std::vector<uint8_t> valid;

  Tensor() = default;
  // All Invalid.
  Tensor(DType dtype, Shape shape);

  int64_t size() const { return static_cast<int64_t>(bits.size()); }
  void Set(int64_t i, uint64_t value) {
    bits[i] = value;
    valid[i] = 1;
  }
};

// What a Tensor takes for each element.
inline constexpr int64_t kCellBytes = sizeof(uint64_t) + sizeof(uint8_t);

// A byte of a bool other than 0 and 1 is true. `host` has all its bytes.
Tensor FromHost(const HostTensor& host);
// Invalid elements become 0.
HostTensor ToHost(const Tensor& tensor);

// One element of `dtype` at `data`, in ConstArg's form, and back.
uint64_t LoadElement(DType dtype, const char* data);
void StoreElement(DType dtype, uint64_t bits, char* data);

// Row-major: how far apart neighbours along each axis are, in elements.
Shape Strides(const Shape& shape);

// Visits the coordinates of a shape in row-major order:
//   for (Odometer at(shape); !at.done(); at.Next()) … at[axis] …
class Odometer {
 public:
  explicit Odometer(const Shape& shape) : shape_(shape), coords_(shape.size(), 0), left_(NumElements(shape)) {}
  bool done() const { return left_ == 0; }
  void Next();
  int64_t operator[](size_t axis) const { return coords_[axis]; }
  // The sum of coordinate times stride.
  int64_t Dot(const Shape& strides) const;

 private:
  const Shape& shape_;
  absl::InlinedVector<int64_t, 6> coords_;
  int64_t left_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_TENSOR_H_
