#include "tests/fuzz/program_maker.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/odd_numbers.h"
#include "tests/support/program_builder.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

using compiler::DType;

constexpr DType kInts[] = {DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64,
                           DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64};
constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16};

struct Value {
  Node node;
  DType dtype;
  int64_t lanes = 0;  // 0: a scalar
};

struct Memory {
  Node node;
  DType dtype;
  std::vector<int64_t> shape;
  enum class Use {
    kInput,   // only read
    kOwn,     // an item touches only places of its own
    kShared,  // LOCAL: places of its own and reads anywhere alternate, with BARRIERs between
    kSums,    // only added to
    kAny,     // an item's own memory, or a program that may race
  } use;
  bool reads_anywhere = false;  // kShared: which of the two is next
  int64_t size() const {
    int64_t n = 1;
    for (int64_t axis : shape) n *= axis;
    return n;
  }
};

class Maker {
 public:
  Maker(uint64_t seed, const ProgramTaste& taste) : random_(seed), taste_(taste) {}

  MadeProgram Make() {
    MakeCoordinates();
    MakeMemory();
    for (int i = 0; i < 3; ++i) Push(Literal(AnyDType()));
    Block(taste_.size, true);
    for (size_t m = 0; m < memory_.size(); ++m) {
      if (memory_[m].use == Memory::Use::kOwn) StoreSomething(memory_[m]);
    }
    made_.graph = p_.Finish("fuzz");
    return std::move(made_);
  }

 private:
  // -- The frame
  void MakeCoordinates() {
    int64_t stride = 1;
    own_ = {p_.Int(0, DType::kInt64), DType::kInt64};
    const auto add = [&](const std::string& name, int64_t bound) {
      const Value at = {p_.Special(name, bound), DType::kInt32};
      values_.push_back(at);
      const Node wide = p_.Cast(at.node, DType::kInt64);
      own_.node = p_.Add(own_.node, p_.Mul(wide, p_.Int(stride, DType::kInt64)));
      stride *= bound;
    };
    const int axes = static_cast<int>(random_.In(0, 2));
    for (int axis = 0; axis < axes; ++axis) add(absl::StrCat("lidx", axis), random_.In(1, axis == 0 ? 9 : 3));
    items_ = stride;
    place_ = own_;
    const bool ungrouped = random_.OneIn(5);
    const int more = static_cast<int>(random_.In(0, 2));
    for (int axis = 0; axis < more; ++axis) {
      const bool lone = ungrouped && axis >= axes;
      add(absl::StrCat(lone ? "idx" : "gidx", axis), random_.In(1, 4));
    }
    all_items_ = stride;
  }

  void AddGlobal(DType dtype, std::vector<int64_t> shape, Memory::Use use) {
    const auto slot = static_cast<uint32_t>(made_.arguments.size());
    memory_.push_back({p_.Global(slot, dtype, shape), dtype, shape, use});
    compiler::HostTensor tensor{dtype, {shape.begin(), shape.end()}, {}};
    for (int64_t i = 0; i < memory_.back().size(); ++i) {
      const uint64_t bits = OddNumber(random_, dtype);
      tensor.bytes.append(reinterpret_cast<const char*>(&bits), compiler::ItemSize(dtype));
    }
    made_.arguments[slot] = tensor;
  }

  void MakeMemory() {
    const auto use = [&](Memory::Use tame) { return taste_.race_free ? tame : Memory::Use::kAny; };
    for (int i = 0; i < 2; ++i) {
      std::vector<int64_t> shape = {random_.In(1, 20)};
      if (random_.OneIn(3)) shape.push_back(random_.In(1, 5));
      AddGlobal(AnyDType(), shape, use(Memory::Use::kInput));
    }
    AddGlobal(AnyInt(), {all_items_ * random_.In(1, 3) + random_.In(0, 3)}, use(Memory::Use::kOwn));
    AddGlobal(AnyFloat(), {all_items_ * random_.In(1, 2)}, use(Memory::Use::kOwn));
    if (random_.OneIn(2))
      AddGlobal(random_.Pick({DType::kInt32, DType::kUint32, DType::kInt64}), {random_.In(1, 6)},
                use(Memory::Use::kSums));
    const auto inner = [&](bool local, uint32_t slot) {
      std::vector<int64_t> shape = {local ? items_ + random_.In(0, 4) : random_.In(1, 7)};
      if (!local && random_.OneIn(4)) shape.push_back(random_.In(1, 3));
      const DType dtype = AnyDType();
      const Node node = local ? p_.Local(slot, dtype, shape) : p_.Reg(slot, dtype, shape);
      memory_.push_back({node, dtype, shape, local ? use(Memory::Use::kShared) : Memory::Use::kAny});
    };
    for (uint32_t i = 0; i < random_.Below(3); ++i) inner(true, i);
    for (uint32_t i = 0; i < 1 + random_.Below(2); ++i) inner(false, i);
  }

  // -- Statements
  void Block(int statements, bool together) {
    for (int i = 0; i < statements; ++i) {
      switch (random_.Below(16)) {
        case 0:
        case 1: Loop(statements / 2, together); break;
        case 2: Condition(statements / 2); break;
        case 3:
        case 4: together ? Barrier() : StoreSomething(AnyMemory()); break;
        case 5:
        case 6:
        case 7: StoreSomething(AnyMemory()); break;
        case 8:
        case 9:
        case 10: Push(Read(AnyMemory())); break;
        case 11: Push(Vector()); break;
        case 12: Multiply(); break;
        default: Push(Compute()); break;
      }
    }
  }

  void Loop(int statements, bool together) {
    if (depth_ >= 3 || iterations_ > 40) return Push(Compute());
    const int64_t most = random_.In(0, 4);
    // The same for all items: a literal. Otherwise any number, brought down.
    const bool even = together && random_.OneIn(2);
    Node bound;
    if (even) {
      bound = p_.Int(most);
    } else {
      const Value any = As(Scalar(), random_.Pick({DType::kInt32, DType::kInt64, DType::kUint8, DType::kInt8}));
      bound = random_.OneIn(2) ? p_.Do(v1::AND, {any.node, p_.Int(3, any.dtype)})
                               : p_.Do(v1::CMOD, {any.node, p_.Int(4, any.dtype)});
    }
    const size_t outer = values_.size();
    const int64_t outer_iterations = iterations_;
    iterations_ *= std::max<int64_t>(even ? most : 4, 1);
    ++depth_;
    const Node range = p_.Range(bound, loops_++);
    values_.push_back({range, DType::kInt32});
    if (even) Barrier();
    Block(std::max(statements, 1), even);
    if (even) Barrier();
    p_.End(range);
    if (even) Barrier();  // those inside did nothing if there was no iteration
    --depth_;
    iterations_ = outer_iterations;
    values_.resize(outer);
  }

  void Condition(int statements) {
    if (depth_ >= 3) return Push(Compute());
    const size_t outer = values_.size();
    ++depth_;
    const Node opened = p_.If(As(Scalar(), DType::kBool).node);
    Block(std::max(statements, 1), false);
    p_.EndIf(opened);
    --depth_;
    values_.resize(outer);
  }

  void Barrier() {
    p_.Barrier();
    for (Memory& memory : memory_) memory.reads_anywhere = random_.OneIn(2);
  }

  void StoreSomething(Memory& memory) {
    if (memory.use == Memory::Use::kInput || (memory.use == Memory::Use::kShared && memory.reads_anywhere))
      return Push(Read(memory));
    if (memory.use == Memory::Use::kSums || (memory.use == Memory::Use::kAny && random_.OneIn(6))) return AddTo(memory);
    int64_t lanes = 0;
    const Node pointer = Pointer(memory, lanes);
    const Value value = As(random_.OneIn(3) && lanes > 0 ? WithLanes(lanes) : Scalar(), memory.dtype);
    std::vector<Node> src = {pointer, value.node};
    if (random_.OneIn(3)) src.push_back(As(Scalar(), DType::kBool).node);
    p_.Do(v1::STORE, src);
  }

  void AddTo(Memory& memory) {
    if (memory.dtype == DType::kBool) return;
    p_.Do(v1::ATOMICADD, {Place(memory, Index(memory)), As(Scalar(), memory.dtype).node});
  }

  Value Read(Memory& memory) {
    if (memory.use == Memory::Use::kSums) return Compute();
    int64_t lanes = 0;
    const Node pointer = Pointer(memory, lanes);
    std::vector<Node> src = {pointer};
    if (random_.OneIn(2)) src.push_back(As(Scalar(), memory.dtype).node);
    if (src.size() == 2 && random_.OneIn(2)) src.push_back(As(Scalar(), DType::kBool).node);
    return {p_.Do(v1::LOAD, src), memory.dtype, lanes};
  }

  // A place that this item may touch now; `lanes` of it, 0 for one alone.
  Node Pointer(Memory& memory, int64_t& lanes) {
    const bool own = memory.use == Memory::Use::kOwn || (memory.use == Memory::Use::kShared && !memory.reads_anywhere);
    if (own) return OwnPlace(memory);
    if (memory.shape.size() == 1 && random_.OneIn(4)) {
      lanes = random_.In(1, std::min<int64_t>(memory.shape[0], 8));
      return p_.Neighbours(memory.node, Index(memory), lanes);
    }
    if (random_.OneIn(5)) {  // lanes anywhere
      const Value index = As(WithLanes(random_.In(1, 6)), random_.Pick({DType::kInt32, DType::kInt64, DType::kUint8}));
      lanes = index.lanes;
      return Place(memory, index.node);
    }
    return Place(memory, Index(memory));
  }

  Node Place(Memory& memory, Node first) {
    std::vector<Node> place = {first};
    while (place.size() < memory.shape.size()) place.push_back(Index(memory));
    return p_.At(memory.node, place);
  }

  // No other item's, whatever the wild number is: `stride` apart.
  Node OwnPlace(Memory& memory) {
    const bool shared = memory.use == Memory::Use::kShared;
    const int64_t stride = shared ? items_ : all_items_;
    const Node wild = As(Scalar(), random_.Pick({DType::kInt8, DType::kInt32, DType::kUint8})).node;
    const Node multiple = random_.OneIn(3) ? p_.Cast(wild, DType::kInt64) : p_.Int(random_.In(0, 1), DType::kInt64);
    const Node base = shared ? place_.node : own_.node;
    return p_.At(memory.node, {p_.Add(base, p_.Mul(multiple, p_.Int(stride, DType::kInt64)))});
  }

  Node Index(const Memory& memory) {
    switch (random_.Below(4)) {
      case 0: return p_.Int(random_.In(-1, memory.size()), random_.Pick({DType::kInt32, DType::kInt64}));
      case 1: return As(Scalar(), random_.Pick({DType::kInt32, DType::kInt64, DType::kUint64, DType::kInt8})).node;
      case 2: {
        const Node any = As(Scalar(), DType::kInt32).node;
        return p_.Do(random_.Pick({v1::FLOORMOD, v1::CMOD}), {any, p_.Int(memory.size())});
      }
      default: {
        const Node any = As(Scalar(), DType::kInt64).node;
        return p_.Add(p_.Mul(any, p_.Int(random_.In(-3, 3), DType::kInt64)), p_.Int(random_.In(-4, 4), DType::kInt64));
      }
    }
  }

  // -- Values
  Value Compute() {
    const int64_t lanes = random_.OneIn(4) ? random_.In(1, 8) : 0;
    const auto operand = [&](DType dtype) {
      return As(lanes > 0 && random_.OneIn(2) ? WithLanes(lanes) : Scalar(), dtype);
    };
    const auto widest = [](std::initializer_list<Value> all) {
      int64_t most = 0;
      for (const Value& value : all) most = std::max(most, value.lanes);
      return most;
    };
    if (random_.OneIn(6)) {
      const DType to = AnyDType();
      const Value x = operand(AnyDType());
      return {p_.Cast(x.node, to), to, x.lanes};
    }
    if (random_.OneIn(8)) {
      const DType dtype = AnyDType();
      const Value c = operand(DType::kBool), a = operand(dtype), b = operand(dtype);
      return {p_.Do(v1::WHERE, {c.node, a.node, b.node}), dtype, widest({c, a, b})};
    }
    if (random_.OneIn(3)) return ComputeFloat(operand(AnyFloat()), operand);
    if (random_.OneIn(10)) {
      const Value a = operand(DType::kUint64), b = operand(DType::kUint64);
      return {p_.Do(v1::THREEFRY, {a.node, b.node}), DType::kUint64, widest({a, b})};
    }
    const DType dtype = random_.OneIn(8) ? DType::kBool : AnyInt();
    const v1::Op op = random_.Pick({v1::ADD, v1::MUL, v1::SUB, v1::MAX, v1::FLOORDIV, v1::FLOORMOD, v1::CDIV, v1::CMOD,
                                    v1::XOR, v1::OR, v1::AND, v1::SHL, v1::SHR, v1::CMPLT, v1::CMPNE, v1::CMPEQ});
    const Value a = operand(dtype), b = operand(dtype);
    const bool compares = op == v1::CMPLT || op == v1::CMPNE || op == v1::CMPEQ;
    return {p_.Do(op, {a.node, b.node}), compares ? DType::kBool : dtype, widest({a, b})};
  }

  template <typename Operand>
  Value ComputeFloat(const Value& a, const Operand& operand) {
    std::vector<v1::Op> ops = {v1::ADD,   v1::MUL,  v1::SUB,        v1::FDIV, v1::CMPLT,
                               v1::CMPNE, v1::SQRT, v1::RECIPROCAL, v1::TRUNC};
    if (!taste_.race_free) {
      for (v1::Op op : {v1::MAX, v1::EXP2, v1::LOG2, v1::SIN, v1::POW}) ops.push_back(op);
    }
    const v1::Op op = random_.Pick(ops);
    const bool one =
        op == v1::SQRT || op == v1::RECIPROCAL || op == v1::TRUNC || op == v1::EXP2 || op == v1::LOG2 || op == v1::SIN;
    if (one) return {p_.Do(op, {a.node}), a.dtype, a.lanes};
    const Value b = operand(a.dtype);
    const bool compares = op == v1::CMPLT || op == v1::CMPNE;
    return {p_.Do(op, {a.node, b.node}), compares ? DType::kBool : a.dtype, std::max(a.lanes, b.lanes)};
  }

  Value Vector() {
    const DType dtype = AnyDType();
    std::vector<Node> lanes;
    const int64_t n = random_.In(1, 8);
    for (int64_t i = 0; i < n; ++i) lanes.push_back(As(Scalar(), dtype).node);
    return {p_.Do(v1::STACK, lanes), dtype, n};
  }

  // Small whole numbers, so that sums are exact in any order.
  void Multiply() {
    if (!random_.OneIn(3)) return Push(Compute());
    const int64_t m = random_.In(1, 3), n = random_.In(1, 3), k = random_.In(1, 3);
    const DType in = random_.Pick({DType::kFloat32, DType::kFloat16, DType::kFloat64});
    const DType out = in == DType::kFloat16 ? DType::kFloat32 : in;
    const auto matrix = [&](int64_t size, DType dtype) {
      std::vector<Node> lanes;
      for (int64_t i = 0; i < size; ++i)
        lanes.push_back(p_.Cast(p_.Do(v1::CMOD, {As(Scalar(), DType::kInt32).node, p_.Int(9)}), dtype));
      return p_.Do(v1::STACK, lanes);
    };
    const Node a = matrix(m * k, in), b = matrix(k * n, in), c = matrix(m * n, out);
    Push({p_.Wmma(a, b, c, n, m, k, in, out, 1), out, m * n});
  }

  Value Scalar() {
    if (random_.OneIn(5)) return Literal(AnyDType());
    const Value& any = random_.Pick(values_);
    if (any.lanes == 0) return any;
    return {p_.Lane(any.node, random_.In(0, any.lanes - 1)), any.dtype};
  }

  Value WithLanes(int64_t lanes) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      const Value& any = random_.Pick(values_);
      if (any.lanes == lanes) return any;
    }
    const DType dtype = AnyDType();
    std::vector<Node> all;
    for (int64_t i = 0; i < lanes; ++i) all.push_back(As(Scalar(), dtype).node);
    return {p_.Do(v1::STACK, all), dtype, lanes};
  }

  Value As(const Value& value, DType dtype) {
    if (value.dtype == dtype) return value;
    return {p_.Cast(value.node, dtype), dtype, value.lanes};
  }

  Value Literal(DType dtype) { return {p_.Bits(dtype, OddNumber(random_, dtype)), dtype}; }

  void Push(const Value& value) { values_.push_back(value); }
  Memory& AnyMemory() { return memory_[random_.Below(memory_.size())]; }
  DType AnyInt() { return kInts[random_.Below(std::size(kInts))]; }
  DType AnyFloat() { return kFloats[random_.Below(random_.OneIn(3) ? std::size(kFloats) : 2)]; }
  DType AnyDType() { return random_.OneIn(8) ? DType::kBool : random_.OneIn(3) ? AnyFloat() : AnyInt(); }

  Random random_;
  const ProgramTaste taste_;
  ProgramBuilder p_;
  MadeProgram made_;
  std::vector<Value> values_;  // what is seen here
  std::vector<Memory> memory_;
  Value own_, place_;  // this item's number among all, and in its group; int64
  int64_t items_ = 1, all_items_ = 1;
  int64_t loops_ = 0, iterations_ = 1;
  int depth_ = 0;
};

}  // namespace

MadeProgram MakeProgram(uint64_t seed, const ProgramTaste& taste) { return Maker(seed, taste).Make(); }

}  // namespace kiln::testing
