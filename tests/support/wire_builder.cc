#include "tests/support/wire_builder.h"

#include <vector>

namespace kiln::testing {

using compiler::DType;
using compiler::ToWire;

namespace {

void SetConst(v1::ConstArg* arg, DType dtype, uint64_t bits) {
  arg->set_dtype(ToWire(dtype));
  if (dtype == DType::kBool) {
    arg->set_b(bits != 0);
  } else if (compiler::IsFloat(dtype)) {
    arg->set_bits(bits);
  } else if (compiler::IsSigned(dtype)) {
    arg->set_i(static_cast<int64_t>(bits));
  } else {
    arg->set_u(bits);
  }
}

}  // namespace

Node WireBuilder::Add(v1::Op op, absl::Span<const Node> src) {
  v1::UOp* node = graph_.add_nodes();
  node->set_op(op);
  node->mutable_src()->Add(src.begin(), src.end());
  return static_cast<Node>(graph_.nodes_size()) - 1;
}

Node WireBuilder::Shape(absl::Span<const int64_t> sizes) {
  std::vector<Node> parts;
  for (int64_t size : sizes) parts.push_back(ConstBits(DType::kWeakint, static_cast<uint64_t>(size)));
  return Add(v1::STACK, parts);
}

Node WireBuilder::Param(uint32_t slot, DType dtype, absl::Span<const int64_t> shape) {
  const Node node = Add(v1::PARAM, {Shape(shape)});
  last()->mutable_buffer()->set_slot(slot);
  last()->mutable_buffer()->set_dtype(ToWire(dtype));
  return node;
}

Node WireBuilder::ConstBits(DType dtype, uint64_t bits) {
  const Node node = Add(v1::CONST, {});
  SetConst(last()->mutable_constant(), dtype, bits);
  return node;
}

Node WireBuilder::Invalid(DType dtype) {
  const Node node = Add(v1::CONST, {});
  last()->mutable_constant()->set_dtype(ToWire(dtype));
  last()->mutable_constant()->set_invalid(true);
  return node;
}

Node WireBuilder::Cast(Node x, DType dtype) {
  const Node node = Add(v1::CAST, {x});
  last()->set_cast_to(ToWire(dtype));
  return node;
}

Node WireBuilder::Bitcast(Node x, DType dtype) {
  const Node node = Add(v1::BITCAST, {x});
  last()->set_cast_to(ToWire(dtype));
  return node;
}

Node WireBuilder::Permute(Node x, absl::Span<const int64_t> order) {
  const Node node = Add(v1::PERMUTE, {x});
  last()->mutable_axes()->mutable_axis()->Add(order.begin(), order.end());
  return node;
}

Node WireBuilder::Flip(Node x, absl::Span<const int64_t> flags) {
  const Node node = Add(v1::FLIP, {x});
  last()->mutable_flip();
  for (int64_t flag : flags) last()->mutable_flip()->add_axis(flag != 0);
  return node;
}

Node WireBuilder::Shrink(Node x, absl::Span<const int64_t> offset, absl::Span<const int64_t> shape) {
  const Node at = Shape(offset);
  return Add(v1::SHRINK, {x, at, Shape(shape)});
}

Node WireBuilder::Pad(Node x, absl::Span<const int64_t> offset, absl::Span<const int64_t> shape) {
  const Node at = Shape(offset);
  return Add(v1::PAD, {x, at, Shape(shape)});
}

Node WireBuilder::Reduce(Node x, v1::Op op, absl::Span<const int64_t> axes) {
  const Node node = Add(v1::REDUCE, {x});
  last()->mutable_reduce()->set_op(op);
  last()->mutable_reduce()->mutable_axis()->Add(axes.begin(), axes.end());
  return node;
}

}  // namespace kiln::testing
