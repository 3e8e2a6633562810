// Sigmoids and their kin far out, where an exponential overflows or is 0: values and
// gradients are finite and near the true ones, in every spelling and dtype. What docs/ir.md
// allows beyond IEEE is for these; compiler/rules/stable.h has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/float_bits.h"
#include "client/cpp/ops.h"
#include "compiler/gradient/gradient.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

using namespace client;  // NOLINT: the builder's functions read best without a prefix.
using compiler::DType;
using compiler::HostTensor;

constexpr double kPoints[] = {0,    0.5, 1,  1.5, -1, 3,   -3, 5,   -5,  10,   -10, 11.5, -11.5, 17,   -17, 20,  -20,
                              44.5, -45, 60, -60, 87, -87, 89, -89, 300, -300, 700, -700, 710,   -710, 1e4, -1e4};

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }
double Slope(double x) { return std::exp(-std::fabs(x)) / std::pow(1 + std::exp(-std::fabs(x)), 2); }
double Silu(double x) { return x * Logistic(x); }
double SiluSlope(double x) { return Logistic(x) + x * Slope(x); }
double Minus(double x) { return Logistic(-x); }

struct Form {
  const char* name;
  Tensor (*make)(const Tensor& x);
  // Null where the value itself is infinite far out, as IEEE has it.
  double (*value)(double x);
  double (*slope)(double x);
  bool in_float32 = false;  // whatever the tensor's dtype
};

Tensor Power(const Tensor& x) { return Pow(std::exp(1.0), x); }
Tensor Wide(const Tensor& x) { return Cast(Exp(Cast(x, v1::FLOAT32)), x.dtype()); }
Tensor WideUp(const Tensor& x) { return Cast(Exp(x), v1::FLOAT64); }

const Form kForms[] = {
    {"quotient", [](const Tensor& x) { return Exp(x) / (1 + Exp(x)); }, Logistic, Slope},
    {"quotient the other way", [](const Tensor& x) { return Exp(x) / (Exp(x) + 1); }, Logistic, Slope},
    {"times the reciprocal", [](const Tensor& x) { return Exp(x) * Reciprocal(1 + Exp(x)); }, Logistic, Slope},
    {"the reciprocal times it", [](const Tensor& x) { return Reciprocal(1 + Exp(x)) * Exp(x); }, Logistic, Slope},
    {"times a quotient of 1", [](const Tensor& x) { return Exp(x) * (1 / (1 + Exp(x))); }, Logistic, Slope},
    {"of the negative", [](const Tensor& x) { return 1 / (1 + Exp(-x)); }, Logistic, Slope},
    {"the reciprocal of the negative", [](const Tensor& x) { return Reciprocal(1 + Exp(-x)); }, Logistic, Slope},
    {"the builder's", [](const Tensor& x) { return Sigmoid(x); }, Logistic, Slope},
    {"1 minus a quotient", [](const Tensor& x) { return 1 - Exp(x) / (1 + Exp(x)); }, nullptr,
     [](double x) { return -Slope(x); }},
    {"a power", [](const Tensor& x) { return Power(x) / (1 + Power(x)); }, Logistic, Slope},
    {"through float32", [](const Tensor& x) { return Wide(x) / (1 + Wide(x)); }, Logistic, Slope, true},
    {"through float32, times the reciprocal", [](const Tensor& x) { return Wide(x) * Reciprocal(1 + Wide(x)); },
     Logistic, Slope, true},
    {"in float64", [](const Tensor& x) { return Cast(WideUp(x) / (1 + WideUp(x)), x.dtype()); }, Logistic, Slope},
    {"scaled", [](const Tensor& x) { return 3 * Exp(x) / (1 + Exp(x)) * 0.5; },
     [](double x) { return 1.5 * Logistic(x); }, [](double x) { return 1.5 * Slope(x); }},
    {"tanh of half", [](const Tensor& x) { return 1 - 2 / (1 + Exp(x)); }, nullptr,
     [](double x) { return 2 * Slope(x); }},
    {"tanh of half, times 2", [](const Tensor& x) { return 2 * Sigmoid(x) - 1; }, nullptr,
     [](double x) { return 2 * Slope(x); }},
    {"tanh of half, a quotient", [](const Tensor& x) { return (Exp(x) - 1) / (Exp(x) + 1); },
     [](double x) { return std::tanh(x / 2); }, [](double x) { return 2 * Slope(x); }},
    {"tanh of half, times the reciprocal", [](const Tensor& x) { return (Exp(x) - 1) * Reciprocal(Exp(x) + 1); },
     [](double x) { return std::tanh(x / 2); }, [](double x) { return 2 * Slope(x); }},
    {"silu", [](const Tensor& x) { return x * Sigmoid(x); }, Silu, SiluSlope},
    {"silu, a quotient", [](const Tensor& x) { return x * Exp(x) / (1 + Exp(x)); }, Silu, SiluSlope},
    {"silu, times a quotient", [](const Tensor& x) { return x * (Exp(x) / (1 + Exp(x))); }, Silu, SiluSlope},
    {"silu, over the negative", [](const Tensor& x) { return x / (1 + Exp(-x)); }, Silu, SiluSlope},
    {"softplus", [](const Tensor& x) { return Log(1 + Exp(x)); }, nullptr, Logistic},
    {"softplus of the negative", [](const Tensor& x) { return -Log(Exp(-x) + 1); }, nullptr, Minus},
    {"the sigmoid's logarithm", [](const Tensor& x) { return Log(Reciprocal(1 + Exp(-x))); }, nullptr, Minus},
    {"the sigmoid's logarithm, a quotient", [](const Tensor& x) { return Log(1 / (1 + Exp(-x))); }, nullptr, Minus},
    {"squared", [](const Tensor& x) { return Square(Exp(x) / (1 + Exp(x))); },
     [](double x) { return Logistic(x) * Logistic(x); }, [](double x) { return 2 * Logistic(x) * Slope(x); }},
    {"both ways", [](const Tensor& x) { return Exp(x) / (1 + Exp(x)) + Reciprocal(1 + Exp(x)) * Exp(x); },
     [](double x) { return 2 * Logistic(x); }, [](double x) { return 2 * Slope(x); }},
};

struct Kind {
  v1::DType wire;
  DType dtype;
  double epsilon;  // of one rounding
  double least;    // what is below it may be 0
};
const Kind kKinds[] = {{v1::FLOAT32, DType::kFloat32, 0x1p-24, 1e-36},
                       {v1::FLOAT64, DType::kFloat64, 0x1p-53, 1e-300},
                       {v1::FLOAT16, DType::kFloat16, 0x1p-11, 1e-3},
                       {v1::BFLOAT16, DType::kBfloat16, 0x1p-8, 1e-36}};

HostTensor Points(const Kind& kind) {
  HostTensor tensor{kind.dtype, {static_cast<int64_t>(std::size(kPoints))}, ""};
  for (const double point : kPoints) {
    const uint64_t bits = FloatToBits(kind.wire, point);
    tensor.bytes.append(reinterpret_cast<const char*>(&bits), compiler::ItemSize(kind.dtype));
  }
  return tensor;
}

double At(const Kind& kind, const HostTensor& tensor, size_t i) {
  uint64_t bits = 0;
  const auto size = static_cast<size_t>(compiler::ItemSize(kind.dtype));
  std::memcpy(&bits, tensor.bytes.data() + i * size, size);
  return BitsToFloat(kind.wire, bits);
}

// An exponent is rounded before it is one; so an exponential is right to so many roundings.
void ExpectNear(const Kind& kind, double x, double actual, double expected, const char* what) {
  const double roundings = 8 + 2 * std::fabs(x);
  const double near = std::fabs(expected) * std::min(0.5, roundings * kind.epsilon) + 8 * kind.least;
  EXPECT_NEAR(actual, expected, near) << what << " at " << x;
}

class Far : public ::testing::TestWithParam<std::tuple<Form, Kind>> {};

TEST_P(Far, IsFiniteAndNear) {
  const auto& [form, wanted] = GetParam();
  Kind kind = wanted;
  if (form.in_float32) {
    kind.epsilon = std::max(kind.epsilon, kKinds[0].epsilon);
    kind.least = std::max(kind.least, kKinds[0].least);
  }
  Graph builder;
  builder.Output(form.make(builder.Param(0, kind.wire, {static_cast<int64_t>(std::size(kPoints))})));
  const auto graph = builder.Build();
  ASSERT_TRUE(graph.ok()) << graph.status();
  v1::GradientRequest request;
  *request.mutable_graph() = *graph;
  request.add_wrt_slot(0);
  request.set_cotangent_slot(1);
  request.set_include_results(true);
  const auto gradient = compiler::Gradient(request, compiler::Limits());
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  HostTensor ones = Points(kind);
  const uint64_t one = FloatToBits(kind.wire, 1);
  const auto size = static_cast<size_t>(compiler::ItemSize(kind.dtype));
  for (size_t i = 0; i < std::size(kPoints); ++i) std::memcpy(ones.bytes.data() + i * size, &one, size);
  const HostTensor points = Points(kind);
  for (const auto& options : {ExactOptions(), compiler::Options()}) {
    const auto run = CpuEngine().Run(gradient->graph(), {{0, points}, {1, ones}}, options);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_EQ(run->results.size(), 2);
    for (size_t i = 0; i < std::size(kPoints); ++i) {
      const double x = At(kind, points, i);
      if (form.value != nullptr) ExpectNear(kind, x, At(kind, run->results[0], i), form.value(x), "value");
      ExpectNear(kind, x, At(kind, run->results[1], i), form.slope(x), "slope");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Far, ::testing::Combine(::testing::ValuesIn(kForms), ::testing::ValuesIn(kKinds)),
                         [](const auto& info) {
                           std::string name = std::string(std::get<0>(info.param).name) + " " +
                                              v1::DType_Name(std::get<1>(info.param).wire);
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace kiln::testing
