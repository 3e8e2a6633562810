#include "client/cpp/nn.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/elementwise.h"
#include "client/cpp/markers.h"
#include "client/cpp/movement.h"
#include "client/cpp/reduce.h"

namespace kiln::client {
namespace {

Tensor FailShape(Tensor x, const char* function, absl::string_view message) {
  return x.graph()->Fail(v1::SHAPE_MISMATCH, function, message);
}

}  // namespace

// Every product of a row's element with a column's, summed over the shared axis:
// (..., m, k, 1) * (..., 1, k, n).
Tensor Matmul(Tensor a, Tensor b) {
  if (!a.valid()) return a;
  if (!b.valid()) return b;
  if (a.rank() == 0 || b.rank() == 0) return FailShape(a, "Matmul", "of a scalar; use *");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (a.size(-1) != b.size(column ? -1 : -2)) {
    return FailShape(a, "Matmul",
                     absl::StrCat(ShapeText(a.sizes()), " times ", ShapeText(b.sizes()), ": the inner axes, ",
                                  a.size(-1).Text(), " and ", b.size(column ? -1 : -2).Text(), ", must be equal"));
  }
  const Tensor left = Unsqueeze(row ? Unsqueeze(a, 0) : a, -1);
  const Tensor right = Unsqueeze(column ? Unsqueeze(b, 1) : b, -3);
  Tensor product = Sum(left * right, -2);
  if (row) product = Squeeze(product, -2);
  if (column) product = Squeeze(product, -1);
  return product;
}

Tensor Linear(Tensor x, Tensor weight, Tensor bias) {
  if (weight.valid() && weight.rank() != 2) {
    return FailShape(weight, "Linear", absl::StrCat("a weight is (out, in), not ", ShapeText(weight.sizes())));
  }
  const Tensor product = Matmul(x, Transpose(weight));
  return bias.graph() != nullptr ? product + bias : product;
}

// The greatest element goes out of the exponent first, so that nothing overflows. The
// value does not depend on what is taken out, so neither does the gradient.
Tensor Softmax(Tensor x, int64_t axis) {
  const Tensor exponentials = Exp(x - Detach(Max(x, axis, true)));
  return exponentials * Reciprocal(Sum(exponentials, axis, true));  // one division a row
}

Tensor LogSoftmax(Tensor x, int64_t axis) {
  const Tensor shifted = x - Detach(Max(x, axis, true));
  return shifted - Log(Sum(Exp(shifted), axis, true));
}

Tensor CrossEntropy(Tensor logits, Tensor labels) {
  if (!logits.valid()) return logits;
  if (!labels.valid()) return labels;
  if (logits.rank() != 2 || labels.rank() != 1 || labels.size(0) != logits.size(0)) {
    return FailShape(logits, "CrossEntropy",
                     absl::StrCat("takes (n, classes) and (n,), not ", ShapeText(logits.sizes()), " and ",
                                  ShapeText(labels.sizes())));
  }
  const Tensor truth = OneHot(labels, logits.size(1), logits.dtype());
  return -Mean(Sum(LogSoftmax(logits, 1) * truth, 1));
}

Tensor LayerNorm(Tensor x, Tensor weight, Tensor bias, double epsilon) {
  const Tensor centred = x - Mean(x, -1, true);
  Tensor result = centred * Rsqrt(Mean(Square(centred), -1, true) + epsilon);
  if (weight.graph() != nullptr) result = result * weight;
  return bias.graph() != nullptr ? result + bias : result;
}

Tensor OneHot(Tensor ids, const Size& classes, v1::DType dtype) {
  if (!ids.valid()) return ids;
  if (!IsInteger(ids.dtype())) {
    return ids.graph()->Fail(v1::DTYPE_MISMATCH, "OneHot",
                             absl::StrCat("the ids are integers, not ", DTypeName(ids.dtype())));
  }
  return Cast(Unsqueeze(ids, -1) == ids.graph()->Arange(classes, ids.dtype()), dtype);
}

Tensor Embedding(Tensor table, Tensor ids) {
  if (!table.valid()) return table;
  if (!ids.valid()) return ids;
  if (table.rank() == 0) return FailShape(table, "Embedding", "a table has rows; this is a scalar");
  Sizes shape = ids.sizes();
  shape.insert(shape.end(), table.sizes().begin() + 1, table.sizes().end());
  return Reshape(Index(table, {Flatten(ids)}), std::move(shape));
}

// A mask along the gathered axis, and a sum: adding the zeros of all other
// elements leaves the one chosen.
Tensor Gather(Tensor x, int64_t axis, Tensor index) {
  if (!x.valid()) return x;
  if (!index.valid()) return index;
  const int64_t place = CheckAxis(*x.graph(), "Gather", axis, x.rank());
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  Sizes expected = x.sizes();
  if (index.rank() == x.rank()) expected[place] = index.sizes()[place];
  if (index.sizes() != expected) {
    return FailShape(
        x, "Gather",
        absl::StrCat("an index of ", ShapeText(index.sizes()), " for ", ShapeText(x.sizes()), " along axis ", place));
  }
  const Tensor chosen = OneHot(index, x.sizes()[place], v1::BOOL);
  // x with the gathered axis last, where the mask has it.
  const Tensor values = Transpose(Unsqueeze(x, -1), place, -1);
  return Sum(Where(chosen, values, 0), -1);
}

}  // namespace kiln::client
