// The interpreter against the reference data: integers bit for bit; floats bit
// for bit where docs/ir.md says correctly rounded, else within its bounds.
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "compiler/interp/scalar.h"
#include "tests/conformance/cases.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using compiler::HostTensor;

// Empty if `got` is what `want` says.
std::string Check(const HostTensor& got, const Output& want) {
  if (want.digest.has_value()) {
    const uint64_t digest = Digest(got.bytes);
    return digest == *want.digest ? "" : absl::StrCat("digest ", absl::Hex(digest), ", want ", absl::Hex(*want.digest));
  }
  const int item = compiler::ItemSize(got.dtype);
  if (got.bytes.size() != want.elements.size() * item) return absl::StrCat(got.bytes.size(), " bytes");
  const bool is_float = compiler::IsFloat(got.dtype);
  const uint64_t any_nan = is_float ? compiler::FloatBits(got.dtype, std::nan("")) : 0;
  std::string report;
  for (size_t i = 0; i < want.elements.size(); ++i) {
    const uint64_t element = is_float && want.elements[i] == Output::kNan ? any_nan : want.elements[i];
    const std::string difference = CompareElement(
        got.dtype, compiler::LoadElement(got.dtype, got.bytes.data() + i * item), element, want.tolerance);
    if (!difference.empty()) absl::StrAppend(&report, "  lane ", i, ": ", difference, "\n");
  }
  return report;
}

void CheckCase(const Case& test) {
  const auto got = RunInterpreted(test.graph, test.arguments);
  ASSERT_TRUE(got.ok()) << test.name << ": " << got.status() << "\n" << PrintGraph(test.graph);
  ASSERT_EQ(got->results.size(), test.outputs.size()) << test.name;
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    EXPECT_EQ(Check(got->results[i], test.outputs[i]), "") << test.outputs[i].name << " in " << test.name;
  }
}

TEST(InterpVsNumpy, ElementwiseOpsAndCasts) {
  size_t outputs = 0;
  for (const Case& test : ScalarCases()) {
    CheckCase(test);
    outputs += test.outputs.size();
  }
  EXPECT_GE(outputs, 13u * 12u + 250u);  // every cast, and every op of each dtype
}

TEST(InterpVsNumpy, MovementAndReduce) {
  const std::vector<Case> cases = TensorCases();
  EXPECT_GE(cases.size(), 3000u);
  for (const Case& test : cases) CheckCase(test);
}

}  // namespace
}  // namespace kiln::testing
