#include "compiler/testing/z3_oracle.h"

#include <z3++.h>

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler::testing {
namespace {

using Int = __int128;

constexpr unsigned kMilliseconds = 1000;

// A number and an interval that holds it, known without the compiler's help: it
// says where arithmetic cannot wrap, so that Z3 need not think about it.
struct Number {
  z3::expr value;
  Int min, max;
};

class Encoder {
 public:
  explicit Encoder(z3::context& z3) : z3_(z3), constraints_(z3) {}

  // Null if the expression is beyond what is encoded.
  const Number* Encode(UOp* root) {
    for (UOp* uop : Toposort(root)) {
      if (uop->op() == Op::STACK || done_.contains(uop)) continue;  // shapes
      if (uop->op() == Op::CONST && IsWeak(uop->dtype())) continue;
      std::optional<Number> number = Of(uop);
      if (!number.has_value()) return nullptr;
      done_.emplace(uop, std::move(*number));
    }
    return &done_.at(root);
  }
  const z3::expr_vector& constraints() const { return constraints_; }
  z3::expr Literal(Int value) { return z3_.int_val(Text(value).c_str()); }

 private:
  static std::string Text(Int value) {
    if (value < 0) return "-" + Text(-value);
    std::string digits;
    do digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    while ((value /= 10) != 0);
    return digits;
  }

  // What is left of an exact value in the dtype.
  Number Wrap(z3::expr value, Int min, Int max, DType dtype) {
    const Bounds range = BoundsOf(dtype);
    if (min >= range.min && max <= range.max) return {value, min, max};
    const z3::expr size = Literal(range.max - range.min + 1), low = Literal(range.min);
    return {z3::mod(value - low, size) + low, range.min, range.max};
  }

  std::optional<Number> Of(UOp* uop) {
    const DType dtype = uop->dtype();
    if (!IsIntOrBool(dtype)) return std::nullopt;
    const Bounds range = BoundsOf(dtype);
    switch (uop->op()) {
      case Op::CONST: {
        const uint64_t bits = uop->arg_as<ConstArg>().bits;
        const Int value = IsSigned(dtype) ? Int{static_cast<int64_t>(bits)} : Int{bits};
        return Number{Literal(value), value, value};
      }
      case Op::RANGE:
        if (!uop->src(0)->IsConst()) return std::nullopt;
        return Variable(uop, 0, std::max<int64_t>(uop->src(0)->const_int() - 1, 0));
      case Op::PARAM: return Variable(uop, range.min, range.max);
      case Op::CAST: {
        if (!IsIntOrBool(uop->src(0)->dtype())) return std::nullopt;
        const Number& x = done_.at(uop->src(0));
        if (dtype == DType::kBool) return Bool(x.value != 0);
        return Wrap(x.value, x.min, x.max, dtype);
      }
      case Op::WHERE: {
        const Number &c = done_.at(uop->src(0)), &a = done_.at(uop->src(1)), &b = done_.at(uop->src(2));
        return Number{z3::ite(c.value != 0, a.value, b.value), std::min(a.min, b.min), std::max(a.max, b.max)};
      }
      case Op::TRUNC: return done_.at(uop->src(0));
      default: break;
    }
    if (!Is(uop->op(), kBinary) || !IsIntOrBool(uop->src(0)->dtype())) return std::nullopt;
    const Number &a = done_.at(uop->src(0)), &b = done_.at(uop->src(1));
    if (uop->op() == Op::CMPLT) return Bool(a.value < b.value);
    if (uop->op() == Op::CMPNE) return Bool(a.value != b.value);
    return dtype == DType::kBool ? OfBool(uop->op(), a, b) : OfInt(uop->op(), a, b, dtype);
  }

  Number Variable(UOp* uop, Int min, Int max) {
    const z3::expr x = z3_.int_const(absl::StrCat("v", uop->id()).c_str());
    constraints_.push_back(x >= Literal(min) && x <= Literal(max));
    return {x, min, max};
  }

  Number Bool(const z3::expr& condition) { return {z3::ite(condition, z3_.int_val(1), z3_.int_val(0)), 0, 1}; }

  std::optional<Number> OfBool(Op op, const Number& a, const Number& b) {
    const z3::expr x = a.value != 0, y = b.value != 0;
    switch (op) {
      case Op::ADD:
      case Op::OR:
      case Op::MAX: return Bool(x || y);
      case Op::MUL:
      case Op::AND: return Bool(x && y);
      case Op::XOR: return Bool(x != y);
      default: return std::nullopt;
    }
  }

  std::optional<Number> OfInt(Op op, const Number& a, const Number& b, DType dtype) {
    const bool constant = b.min == b.max;
    switch (op) {
      case Op::ADD: return Wrap(a.value + b.value, a.min + b.min, a.max + b.max, dtype);
      case Op::MUL: {
        if (!constant && a.min != a.max) return std::nullopt;
        const Int corners[] = {a.min * b.min, a.min * b.max, a.max * b.min, a.max * b.max};
        return Wrap(a.value * b.value, *std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4),
                    dtype);
      }
      case Op::MAX:
        return Number{z3::ite(a.value < b.value, b.value, a.value), std::max(a.min, b.min), std::max(a.max, b.max)};
      case Op::FLOORDIV:
      case Op::FLOORMOD:
      case Op::CDIV:
      case Op::CMOD: {
        if (!constant) return std::nullopt;
        const bool quotient = op == Op::FLOORDIV || op == Op::CDIV;
        if (b.min == 0) return quotient ? Number{z3_.int_val(0), 0, 0} : a;
        const bool floor = op == Op::FLOORDIV || op == Op::FLOORMOD;
        const z3::expr d = Literal(b.min < 0 ? -b.min : b.min);  // Z3 rounds down for a positive divisor
        const z3::expr n = floor && b.min < 0 ? -a.value : a.value;
        const z3::expr whole = floor ? n / d : z3::ite(n >= 0, n / d, -(-n / d)) * z3_.int_val(b.min < 0 ? -1 : 1);
        const Int most = std::max(a.max < 0 ? -a.max : a.max, a.min < 0 ? -a.min : a.min);
        if (quotient) return Wrap(whole, -most - 1, most, dtype);
        return Wrap(a.value - whole * b.value, -most - (b.min < 0 ? -b.min : b.min),
                    most + (b.min < 0 ? -b.min : b.min), dtype);
      }
      case Op::SHR:
        if (!constant || b.min < 0 || b.min > 62) return std::nullopt;
        return Number{a.value / Literal(Int{1} << static_cast<int>(b.min)), std::min<Int>(a.min, 0),
                      std::max<Int>(a.max, 0)};
      default: return std::nullopt;
    }
  }

  z3::context& z3_;
  z3::expr_vector constraints_;
  absl::flat_hash_map<UOp*, Number> done_;
};

// Looks for values for which `claim` does not hold.
template <typename Claim>
Verdict Prove(std::initializer_list<UOp*> nodes, Claim claim) {
  z3::context context;
  Encoder encoder(context);
  std::vector<Number> numbers;
  for (UOp* node : nodes) {
    const Number* number = encoder.Encode(node);
    if (number == nullptr) return {};
    numbers.push_back(*number);
  }
  z3::solver solver(context);
  z3::params params(context);
  params.set("timeout", kMilliseconds);
  solver.set(params);
  for (const z3::expr& constraint : encoder.constraints()) solver.add(constraint);
  solver.add(!claim(encoder, numbers));
  switch (solver.check()) {
    case z3::unsat: return {Verdict::kProved, ""};
    case z3::sat: return {Verdict::kRefuted, absl::StrCat("fails for ", solver.get_model().to_string())};
    default: return {Verdict::kUndecided, "no answer in time"};
  }
}

}  // namespace

Verdict ProveEqual(UOp* a, UOp* b) {
  return Prove({a, b}, [](Encoder&, const std::vector<Number>& n) { return n[0].value == n[1].value; });
}

Verdict ProveImplied(UOp* premise, UOp* conclusion) {
  if (premise == nullptr)
    return Prove({conclusion}, [](Encoder&, const std::vector<Number>& n) { return n[0].value != 0; });
  return Prove({premise, conclusion},
               [](Encoder&, const std::vector<Number>& n) { return n[0].value == 0 || n[1].value != 0; });
}

Verdict ProveBounded(UOp* x) {
  const Bounds bounds = x->bounds();
  return Prove({x}, [bounds](Encoder& encoder, const std::vector<Number>& n) {
    return n[0].value >= encoder.Literal(bounds.min) && n[0].value <= encoder.Literal(bounds.max);
  });
}

}  // namespace kiln::compiler::testing
