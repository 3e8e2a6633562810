// Products of matrices.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <map>

#include "models/onnx/ops/byte_products.h"
#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// Products of narrow floats are not rounded before they are added.
Tensor Product(Tensor a, Tensor b) { return Cast(Matmul(Widened(a), Widened(b)), a.dtype()); }

// The product of inputs 0 and 1, matrices each turned first if it says so; of dequantized ones by integers.
Tensor ProductOfInputs(Node& node, bool turned_a = false, bool turned_b = false) {
  const Tensor a = node.In(0), b = node.In(1);
  const int64_t columns = b.rank() > 1 ? b.rank() - (turned_b ? 2 : 1) : -1;  // a vector has none
  const auto scaled = ScaledFactorsOf(node, columns, a.size(turned_a ? -2 : -1).greatest());
  if (!scaled) return Product(turned_a ? Transpose(a) : a, turned_b ? Transpose(b) : b);
  return Cast(MultipliedBytes(node, scaled->factors, turned_a, turned_b), v1::FLOAT32) * scaled->scale;
}

Result Multiply(Node& node) { return ProductOfInputs(node); }

Result Gemm(Node& node) {
  if (node.In(0).rank() != 2 || node.In(1).rank() != 2) return node.Bad("takes matrices");
  const double alpha = node.Float("alpha", 1), beta = node.Float("beta", 1);
  Tensor product = ProductOfInputs(node, node.Int("transA") != 0, node.Int("transB") != 0);
  const bool real = IsFloat(product.dtype());
  if (!real && (alpha != 1 || beta != 1)) return node.Refuse("alpha and beta beside integers");
  if (alpha != 1) product = product * alpha;
  if (!node.Has(2) || (real && beta == 0)) return product;
  return product + (beta != 1 ? node.In(2) * beta : node.In(2));
}

// One letter an axis; the axes that "..." stands for are the digits 0, 1, … from the last.
absl::StatusOr<std::string> Labels(Node& node, std::string term, int64_t rank) {
  const size_t dots = term.find("...");
  if (dots != std::string::npos) {
    const int64_t hidden = rank - static_cast<int64_t>(term.size() - 3);
    if (hidden < 0 || hidden > 9) return node.Bad("\"...\" stands for no axes");
    std::string names;
    for (int64_t i = hidden; i-- > 0;) names += static_cast<char>('0' + i);
    term.replace(dots, 3, names);
  }
  if (static_cast<int64_t>(term.size()) != rank)
    return node.Bad(absl::StrCat("\"", absl::CHexEscape(term), "\" for a tensor of rank ", rank));
  return term;
}

// Every operand is laid out with an axis for each letter there is, all are multiplied, and the
// letters that the result has not are summed.
Result Einsum(Node& node) {
  std::string equation = node.Text("equation");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  std::string left = equation.substr(0, arrow), right = arrow != std::string::npos ? equation.substr(arrow + 2) : "";
  std::vector<std::string> terms(1);
  for (const char c : left) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (terms.size() != node.inputs()) return node.Bad("the equation has not as many terms as there are inputs");
  std::map<char, Size> sizes;
  std::map<char, int> times;
  int64_t hidden = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool dotted = terms[i].find("...") != std::string::npos;
    if (dotted) hidden = std::max(hidden, node.In(i).rank() - static_cast<int64_t>(terms[i].size()) + 3);
    KILN_ASSIGN_OR_RETURN(terms[i], Labels(node, terms[i], node.In(i).rank()));
    for (size_t axis = 0; axis < terms[i].size(); ++axis) {
      const Size size = node.In(i).size(static_cast<int64_t>(axis));
      const auto [at, made] = sizes.try_emplace(terms[i][axis], size);
      if (!made && at->second == 1) at->second = size;
      ++times[terms[i][axis]];
    }
  }
  std::string shown;
  for (int64_t i = hidden; i-- > 0;) shown += static_cast<char>('0' + i);
  if (arrow == std::string::npos) {
    right = shown;
    for (const auto& [label, count] : times) {
      if (count == 1 && !(label >= '0' && label <= '9')) right += label;
    }
  } else if (right.find("...") != std::string::npos) {
    right.replace(right.find("..."), 3, shown);
  }
  std::string order = right;
  for (const char label : right) {
    if (!sizes.contains(label)) return node.Bad("the result has a letter that no input has");
    if (std::count(right.begin(), right.end(), label) > 1) return node.Bad("the result has a letter twice");
  }
  for (const auto& [label, size] : sizes) {
    if (right.find(label) == std::string::npos) order += label;
  }
  Tensor product;
  for (size_t i = 0; i < terms.size(); ++i) {
    Tensor x = Widened(node.In(i));
    std::string term = terms[i];
    // A letter twice is the diagonal: of two equal axes, the second summed where it is the first.
    for (size_t a = 0; a < term.size(); ++a) {
      for (size_t b = term.size() - 1; b > a; --b) {
        if (term[a] != term[b]) continue;
        const Tensor ids = node.graph().Arange(x.size(static_cast<int64_t>(a)));
        const Tensor same =
            Along(ids, static_cast<int64_t>(a), x.rank()) == Along(ids, static_cast<int64_t>(b), x.rank());
        x = Sum(Where(same, x, Filled(x, 0)), static_cast<int64_t>(b));
        term.erase(b, 1);
      }
    }
    std::vector<int64_t> axes;
    Sizes shape;
    for (const char label : order) {
      const size_t at = term.find(label);
      if (at != std::string::npos) axes.push_back(static_cast<int64_t>(at));
      shape.push_back(at != std::string::npos ? x.size(static_cast<int64_t>(at)) : Size(1));
    }
    x = Reshape(Permute(x, axes), shape);
    product = product.valid() ? product * x : x;
  }
  std::vector<int64_t> summed;
  for (size_t axis = right.size(); axis < order.size(); ++axis) summed.push_back(static_cast<int64_t>(axis));
  return Cast(summed.empty() ? product : Sum(product, summed), node.In(0).dtype());
}

// By the first row's minors: 2, 6, 24 products.
Tensor Determinant(Tensor x, int64_t size) {
  const auto at = [&](int64_t row, int64_t column) {
    return Part(Part(x, x.rank() - 2, row, row + 1), x.rank() - 1, column, column + 1);
  };
  if (size == 1) return x;
  Tensor sum;
  for (int64_t column = 0; column < size; ++column) {
    const Tensor below = Part(x, x.rank() - 2, 1, size);
    const Tensor minor =
        Joined({Part(below, x.rank() - 1, 0, column), Part(below, x.rank() - 1, column + 1, size)}, x.rank() - 1);
    const Tensor term = at(0, column) * Determinant(minor, size - 1);
    sum = !sum.valid() ? term : column % 2 == 0 ? sum + term : sum - term;
  }
  return sum;
}

Result Det(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, -1));
  if (x.rank() < 2 || x.size(-2) != size || size < 1) return node.Bad("takes square matrices");
  if (size > 5) return node.Refuse(absl::StrCat("a determinant of ", size, " rows; up to 5 are taken"));
  return Squeeze(Squeeze(Determinant(x, size), -1), -1);
}

// Matrices whose rows are the first axis, and the batch what comes after it: (m, batch…, k) to (batch…, m, k).
Tensor BatchFirst(Tensor x) {
  if (x.rank() < 3) return x;
  std::vector<int64_t> order = AllAxes(x.rank());
  std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  return Permute(x, order);
}

// com.microsoft: either factor may be read in another order of its axes than it lies in memory.
Result FusedMatMul(Node& node) {
  Tensor a = node.In(0), b = node.In(1);
  if (node.Int("transBatchA") != 0) a = BatchFirst(a);
  if (node.Int("transBatchB") != 0) b = BatchFirst(b);
  if (node.Int("transA") != 0 && a.rank() > 1) a = Transpose(a);
  if (node.Int("transB") != 0 && b.rank() > 1) b = Transpose(b);
  const double alpha = node.Float("alpha", 1);
  return alpha == 1 ? Product(a, b) : Cast(Matmul(Widened(a), Widened(b)) * alpha, a.dtype());
}

constexpr OpRow kRows[] = {
    {"MatMul", 1, Multiply, 2, 2},
    {"Gemm", 7, Gemm, 2, 3},
    {"Einsum", 12, Einsum, 1, kAny},
    {"Det", 11, Det, 1, 1},
    {"FusedMatMul", 1, FusedMatMul, 2, 2, kMicrosoft},
    {"TransposeMatMul", 1, FusedMatMul, 2, 2, kMicrosoft},
};

}  // namespace

OpRows MatmulOps() { return kRows; }

}  // namespace kiln::onnx
