#include "tests/support/program_builder.h"

#include <bit>

namespace kiln::testing {

using compiler::DType;

Node ProgramBuilder::Do(v1::Op op, std::vector<Node> src) {
  list_.push_back(wire_.Add(op, src));
  return list_.back();
}

Node ProgramBuilder::Cast(Node x, DType dtype) {
  list_.push_back(wire_.Cast(x, dtype));
  return list_.back();
}

Node ProgramBuilder::Bitcast(Node x, DType dtype) {
  list_.push_back(wire_.Bitcast(x, dtype));
  return list_.back();
}

Node ProgramBuilder::Int(int64_t value, DType dtype) {
  return Cast(wire_.ConstBits(DType::kWeakint, static_cast<uint64_t>(value)), dtype);
}

Node ProgramBuilder::Float(double value, DType dtype) {
  return Cast(wire_.ConstBits(DType::kWeakfloat, std::bit_cast<uint64_t>(value)), dtype);
}

Node ProgramBuilder::Storage(v1::Op op, uint32_t slot, DType dtype, v1::AddrSpace space,
                             const std::vector<int64_t>& shape) {
  const Node node = Do(op, {wire_.Shape(shape)});
  v1::BufferArg* arg = wire_.last()->mutable_buffer();
  arg->set_slot(slot);
  arg->set_dtype(compiler::ToWire(dtype));
  arg->set_addrspace(space);
  return node;
}

Node ProgramBuilder::Global(uint32_t slot, DType dtype, const std::vector<int64_t>& shape) {
  return Storage(v1::PARAM, slot, dtype, v1::GLOBAL, shape);
}
Node ProgramBuilder::Local(uint32_t slot, DType dtype, const std::vector<int64_t>& shape) {
  return Storage(v1::BUFFER, slot, dtype, v1::LOCAL, shape);
}
Node ProgramBuilder::Reg(uint32_t slot, DType dtype, const std::vector<int64_t>& shape) {
  return Storage(v1::BUFFER, slot, dtype, v1::REG, shape);
}

Node ProgramBuilder::Special(const std::string& name, int64_t bound) {
  const Node node = Do(v1::SPECIAL, {wire_.ConstBits(DType::kWeakint, static_cast<uint64_t>(bound))});
  wire_.last()->mutable_special()->set_name(name);
  wire_.last()->set_dtype(v1::INT32);
  return node;
}

Node ProgramBuilder::Range(Node bound, int64_t id) {
  const Node node = Do(v1::RANGE, {bound});
  wire_.last()->mutable_range()->add_axis_id(id);
  wire_.last()->mutable_range()->set_type(v1::AXIS_LOOP);
  wire_.last()->set_dtype(v1::INT32);
  return node;
}

void ProgramBuilder::End(Node range) {
  const Node nothing = wire_.Add(v1::GROUP, {});
  Do(v1::END, {nothing, range});
}

Node ProgramBuilder::At(Node storage, std::vector<Node> place) {
  place.insert(place.begin(), storage);
  return Do(v1::INDEX, std::move(place));
}

Node ProgramBuilder::Neighbours(Node storage, Node offset, int64_t n) {
  const Node lanes = wire_.ConstBits(DType::kWeakint, static_cast<uint64_t>(n));
  return Do(v1::SHRINK, {storage, offset, lanes});
}

Node ProgramBuilder::Lane(Node vector, int64_t lane) {
  const Node index = wire_.ConstBits(DType::kWeakint, static_cast<uint64_t>(lane));
  return Do(v1::INDEX, {vector, index});
}

Node ProgramBuilder::Wmma(Node a, Node b, Node acc, int64_t n, int64_t m, int64_t k, DType in, DType out,
                          int64_t threads) {
  const Node node = Do(v1::WMMA, {a, b, acc});
  v1::WmmaArg* arg = wire_.last()->mutable_wmma();
  arg->set_n(n);
  arg->set_m(m);
  arg->set_k(k);
  arg->set_dtype_in(compiler::ToWire(in));
  arg->set_dtype_out(compiler::ToWire(out));
  arg->set_threads(threads);
  return node;
}

v1::Graph ProgramBuilder::Finish(const std::string& name) {
  wire_.Add(v1::LINEAR, list_);
  wire_.last()->mutable_kernel()->set_name(name);
  return wire_.graph();
}

}  // namespace kiln::testing
