// Makes programs as a frontend of today sends them: a LINEAR of instructions in
// which literals are CASTs of weak constants and counters are int32.
#ifndef KILN_TESTS_SUPPORT_PROGRAM_BUILDER_H_
#define KILN_TESTS_SUPPORT_PROGRAM_BUILDER_H_

#include <string>
#include <vector>

#include "tests/support/wire_builder.h"

namespace kiln::testing {

class ProgramBuilder {
 public:
  // A node that is also an instruction.
  Node Do(v1::Op op, std::vector<Node> src);
  Node Cast(Node x, compiler::DType dtype);
  Node Bitcast(Node x, compiler::DType dtype);
  // A literal.
  Node Int(int64_t value, compiler::DType dtype = compiler::DType::kInt32);
  Node Float(double value, compiler::DType dtype = compiler::DType::kFloat32);
  Node Bits(compiler::DType dtype, uint64_t bits) { return wire_.ConstBits(dtype, bits); }

  Node Global(uint32_t slot, compiler::DType dtype, const std::vector<int64_t>& shape);
  Node Local(uint32_t slot, compiler::DType dtype, const std::vector<int64_t>& shape);
  Node Reg(uint32_t slot, compiler::DType dtype, const std::vector<int64_t>& shape);

  Node Special(const std::string& name, int64_t bound);
  // Opens a loop; End closes it.
  Node Range(Node bound, int64_t id);
  Node Loop(int64_t iterations, int64_t id) { return Range(Int(iterations), id); }
  void End(Node range);
  Node If(Node gate) { return Do(v1::IF, {gate}); }
  void EndIf(Node opened) { Do(v1::ENDIF, {opened}); }
  void Barrier() { Do(v1::BARRIER, {}); }

  Node At(Node storage, std::vector<Node> place);
  // `n` neighbours from `offset` on.
  Node Neighbours(Node storage, Node offset, int64_t n);
  Node Load(Node pointer) { return Do(v1::LOAD, {pointer}); }
  Node Store(Node pointer, Node value) { return Do(v1::STORE, {pointer, value}); }
  Node Lane(Node vector, int64_t lane);
  Node Wmma(Node a, Node b, Node acc, int64_t n, int64_t m, int64_t k, compiler::DType in, compiler::DType out,
            int64_t threads);

  Node Add(Node a, Node b) { return Do(v1::ADD, {a, b}); }
  Node Mul(Node a, Node b) { return Do(v1::MUL, {a, b}); }
  Node Lt(Node a, Node b) { return Do(v1::CMPLT, {a, b}); }

  // The whole program.
  v1::Graph Finish(const std::string& name);

 private:
  Node Storage(v1::Op op, uint32_t slot, compiler::DType dtype, v1::AddrSpace space, const std::vector<int64_t>& shape);

  WireBuilder wire_;
  std::vector<Node> list_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_PROGRAM_BUILDER_H_
