// Functions that take axes away. `keepdim` leaves them with size 1.
#ifndef KILN_CLIENT_CPP_REDUCE_H_
#define KILN_CLIENT_CPP_REDUCE_H_

#include <initializer_list>
#include <utility>
#include <vector>

#include "client/cpp/graph.h"

namespace kiln::client {

// Which axes; none named means all. Negative ones count from the last.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_{axis} {}                              // NOLINT: implicit on purpose
  Axes(int64_t axis) : axes_{axis} {}                          // NOLINT: implicit on purpose
  Axes(std::initializer_list<int64_t> axes) : axes_(axes) {}   // NOLINT: implicit on purpose
  Axes(std::vector<int64_t> axes) : axes_(std::move(axes)) {}  // NOLINT: implicit on purpose
  const std::vector<int64_t>& list() const { return axes_; }

 private:
  std::vector<int64_t> axes_;
};

// Of bool, Sum counts (int32). Over no elements: 0, 1, the least value.
Tensor Sum(Tensor x, const Axes& axes = {}, bool keepdim = false);
Tensor Prod(Tensor x, const Axes& axes = {}, bool keepdim = false);
// NaN wins.
Tensor Max(Tensor x, const Axes& axes = {}, bool keepdim = false);
Tensor Min(Tensor x, const Axes& axes = {}, bool keepdim = false);
// Of bool.
Tensor Any(Tensor x, const Axes& axes = {}, bool keepdim = false);
Tensor All(Tensor x, const Axes& axes = {}, bool keepdim = false);

// Floats only.
Tensor Mean(Tensor x, const Axes& axes = {}, bool keepdim = false);
// The squared distance from the mean, summed and divided by count - correction.
Tensor Var(Tensor x, const Axes& axes = {}, bool keepdim = false, int64_t correction = 1);

// Where the greatest (least) element of an axis stands, the first if there are
// several: int32. NaN wins.
Tensor ArgMax(Tensor x, int64_t axis, bool keepdim = false);
Tensor ArgMin(Tensor x, int64_t axis, bool keepdim = false);

// Sums from the axis's beginning up to each element.
Tensor CumSum(Tensor x, int64_t axis);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_REDUCE_H_
