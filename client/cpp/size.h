// Sizes of tensors: numbers, or polynomials of variables that each call gives.
//
//   Size n = graph.Variable(1, 1, 1024, "n");
//   Tensor x = graph.Param(0, v1::FLOAT32, {n, 64}, "x");
//   Reshape(x, {-1}).sizes();  // (64*n,)
//   ...
//   program->Run(Arguments().Set(0, rows).Set(1, int64_t{3}));
//
// One program then serves every value of n. Two expressions of one value are equal
// (n + n == 2 * n), so sizes are compared as numbers are. What is computed beyond int64
// is no size: valid() is false, it equals nothing, and a tensor of it is SIZE_OVERFLOW.
#ifndef KILN_CLIENT_CPP_SIZE_H_
#define KILN_CLIENT_CPP_SIZE_H_

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "client/cpp/arrays/dtype.h"

namespace kiln::client {

// An integer that comes with each call, from `least` to `greatest`.
struct SizeVariable {
  uint32_t slot = 0;
  std::string name;
  int64_t least = 0;
  int64_t greatest = 0;
  friend auto operator<=>(const SizeVariable&, const SizeVariable&) = default;
};

// Copied freely. Threads: any.
class Size {
 public:
  // Each product of variables, in order, and its factor; of none, the constant term.
  using Terms = std::map<std::vector<SizeVariable>, int64_t>;

  Size() = default;
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
  Size(T number) : number_(static_cast<int64_t>(number)) {}  // NOLINT: implicit on purpose
  explicit Size(SizeVariable variable);
  // What could not be computed.
  static Size Invalid();

  bool valid() const { return valid_; }
  // The number, where it depends on no variable.
  std::optional<int64_t> number() const { return valid_ && !terms_ ? std::optional(number_) : std::nullopt; }
  bool IsNumber(int64_t value) const { return number() == value; }
  Terms terms() const;

  // Bounds, for all values of the variables; no farther than int64 reaches.
  int64_t least() const { return Bound(false); }
  int64_t greatest() const { return Bound(true); }

  // The quotient by a number or a single product; none where it is no size.
  std::optional<Size> DividedBy(const Size& divisor) const;
  // "64*n + 1"
  std::string Text() const;

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, const Size& b);
  friend bool operator==(const Size& a, const Size& b);
  friend Size& operator+=(Size& a, const Size& b) { return a = a + b; }

 private:
  static Size Of(Terms terms);
  int64_t Bound(bool upper) const;

  bool valid_ = true;
  int64_t number_ = 0;
  // Null where it is a number.
  std::shared_ptr<const Terms> terms_;
};

// A shape of such sizes. Whatever takes one takes a Shape too, or a list of numbers.
class Sizes : public std::vector<Size> {
 public:
  using vector::vector;
  Sizes() = default;
  Sizes(const Shape& shape) : vector(shape.begin(), shape.end()) {}  // NOLINT: implicit on purpose

  // Whether all are numbers.
  bool IsConst() const;
  // The numbers; where sizes depend on variables, the greatest.
  Shape greatest() const;
  // How many elements such a tensor has.
  Size Count() const;
};

// "(n, 3)", "(7,)", "()".
std::string ShapeText(const Sizes& sizes);
// "float32 (n, 3)".
std::string TypeText(v1::DType dtype, const Sizes& sizes);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_SIZE_H_
