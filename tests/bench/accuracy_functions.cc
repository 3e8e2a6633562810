// What accuracy_bench measures, and what it compares with: glibc's long double
// functions, which have 11 bits more than float64.
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "client/cpp/ops.h"
#include "tests/bench/accuracy.h"

namespace kiln::bench {
namespace {

using client::Tensor;

template <v1::DType dtype, Tensor (*f)(Tensor)>
v1::Graph UnaryGraph(int64_t count) {
  client::Graph graph;
  graph.Output(f(graph.Param(0, dtype, {count})));
  auto built = graph.Build();
  KILN_CHECK(built.ok());
  return *std::move(built);
}

template <v1::DType dtype>
v1::Graph PowGraph(int64_t count) {
  client::Graph graph;
  graph.Output(client::Pow(graph.Param(0, dtype, {count}), graph.Param(1, dtype, {count})));
  auto built = graph.Build();
  KILN_CHECK(built.ok());
  return *std::move(built);
}

long double Exp2(long double x, long double) { return std::exp2(x); }
long double Log2(long double x, long double) { return std::log2(x); }
long double Sin(long double x, long double) { return std::sin(x); }
long double Sqrt(long double x, long double) { return std::sqrt(x); }
long double Reciprocal(long double x, long double) { return 1 / x; }
long double Pow(long double x, long double y) { return std::pow(x, y); }

// For float32 a float64 function is truth enough: its error is 2^-29 of an ulp.
long double Exp2OfFloat(long double x, long double) { return std::exp2(static_cast<double>(x)); }
long double Log2OfFloat(long double x, long double) { return std::log2(static_cast<double>(x)); }
long double SinOfFloat(long double x, long double) { return std::sin(static_cast<double>(x)); }
long double PowOfFloat(long double x, long double y) {
  return std::pow(static_cast<double>(x), static_cast<double>(y));
}
long double TanhOfFloat(long double x, long double) { return std::tanh(static_cast<double>(x)); }
long double ErfOfFloat(long double x, long double) { return std::erf(static_cast<double>(x)); }
long double Tanh(long double x, long double) { return std::tanh(x); }
long double Erf(long double x, long double) { return std::erf(x); }

}  // namespace

const std::vector<Function>& Functions() {
  constexpr v1::DType kSingle = v1::FLOAT32, kDouble = v1::FLOAT64;
  static const auto& functions = *new std::vector<Function>{
      {"exp2", false, 1, UnaryGraph<kSingle, client::Exp2>, Exp2OfFloat, 2},
      {"log2", false, 1, UnaryGraph<kSingle, client::Log2>, Log2OfFloat, 2},
      {"sin", false, 1, UnaryGraph<kSingle, client::Sin>, SinOfFloat, 2},
      {"sqrt", false, 1, UnaryGraph<kSingle, client::Sqrt>, Sqrt, 0.5},
      {"reciprocal", false, 1, UnaryGraph<kSingle, client::Reciprocal>, Reciprocal, 0.5},
      {"tanh", false, 1, UnaryGraph<kSingle, client::Tanh>, TanhOfFloat, 0},
      {"erf", false, 1, UnaryGraph<kSingle, client::Erf>, ErfOfFloat, 0},
      {"pow", false, 2, PowGraph<kSingle>, PowOfFloat, 4},
      {"exp2", true, 1, UnaryGraph<kDouble, client::Exp2>, Exp2, 4},
      {"log2", true, 1, UnaryGraph<kDouble, client::Log2>, Log2, 4},
      {"sin", true, 1, UnaryGraph<kDouble, client::Sin>, Sin, 4},
      {"sqrt", true, 1, UnaryGraph<kDouble, client::Sqrt>, Sqrt, 0.5},
      {"reciprocal", true, 1, UnaryGraph<kDouble, client::Reciprocal>, Reciprocal, 0.5},
      {"tanh", true, 1, UnaryGraph<kDouble, client::Tanh>, Tanh, 0},
      {"erf", true, 1, UnaryGraph<kDouble, client::Erf>, Erf, 0},
      {"pow", true, 2, PowGraph<kDouble>, Pow, 16},
  };
  return functions;
}

}  // namespace kiln::bench
