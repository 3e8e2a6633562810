// Sizes as nodes of a graph: a variable is a PARAM of address space ALU, a size a sum of
// products of them.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/elementwise.h"
#include "client/cpp/graph.h"

namespace kiln::client {
namespace {

// Of what range variables are int32, as every client has them; beyond it, int64.
bool FitsInt32(int64_t value) {
  return value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
}

}  // namespace

Size Graph::Variable(uint32_t slot, int64_t least, int64_t greatest, absl::string_view name) {
  if (least < 0 || least > greatest) {
    Fail(v1::BAD_ARGUMENT, "Variable", absl::StrCat(name, " in slot ", slot, " from ", least, " to ", greatest));
    return Size::Invalid();
  }
  SizeVariable variable{slot, std::string(name), least, greatest};
  if (!TakeSlot("Variable", slot, {v1::DTYPE_UNSPECIFIED, {}, {}, variable})) return Size::Invalid();
  return Size(std::move(variable));
}

Tensor Graph::SizeNode(const Size& size, std::optional<v1::DType> cast) {
  const auto number = [&](int64_t value) {
    v1::UOp uop;
    uop.set_op(v1::CONST);
    uop.mutable_constant()->set_dtype(v1::WEAKINT);
    uop.mutable_constant()->set_i(value);
    return Node(std::move(uop), v1::WEAKINT, {});
  };
  const auto variable_node = [&](const SizeVariable& variable) {
    const v1::DType dtype = FitsInt32(variable.greatest) ? v1::INT32 : v1::INT64;
    v1::UOp uop;
    uop.set_op(v1::PARAM);
    uop.add_src(ShapeSource({}));
    uop.mutable_buffer()->set_slot(variable.slot);
    uop.mutable_buffer()->set_dtype(dtype);
    uop.mutable_buffer()->set_addrspace(v1::ALU);
    uop.mutable_buffer()->set_name(variable.name);
    uop.mutable_buffer()->set_min_value(variable.least);
    uop.mutable_buffer()->set_max_value(variable.greatest);
    const Tensor made = Node(std::move(uop), dtype, {});
    return cast ? Cast(made, *cast) : made;
  };
  // A weak number takes the dtype of what it meets.
  const auto join = [&](v1::Op op, Tensor a, Tensor b) {
    if (!a.valid()) return b;
    return Node(op, {a.node(), b.node()}, a.dtype() == v1::WEAKINT ? b.dtype() : a.dtype(), {});
  };
  if (size.number()) return number(*size.number());
  Tensor total;
  for (const auto& [variables, factor] : size.terms()) {
    Tensor product;
    if (factor != 1 || variables.empty()) product = number(factor);
    for (const SizeVariable& variable : variables) product = join(v1::MUL, product, variable_node(variable));
    total = join(v1::ADD, total, product);
  }
  return total;
}

uint32_t Graph::ShapeSource(const Sizes& shape) {
  std::vector<uint32_t> axes;
  for (const Size& size : shape) axes.push_back(SizeNode(size, std::nullopt).node());
  return Node(v1::STACK, axes, v1::WEAKINT, {static_cast<int64_t>(shape.size())}).node();
}

Tensor Graph::Number(const Size& size, v1::DType dtype) {
  if (size.number()) return Constant(*size.number(), dtype);
  if (!size.valid()) return Fail(v1::SIZE_OVERFLOW, "Number", size.Text());
  // What does not fit in int32 is computed in int64.
  const v1::DType wide = FitsInt32(size.least()) && FitsInt32(size.greatest()) ? v1::INT32 : v1::INT64;
  return Cast(SizeNode(size, wide), dtype);
}

}  // namespace kiln::client
