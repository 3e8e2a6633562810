#include "tests/support/compare.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/interp/scalar.h"

namespace kiln::testing {

using compiler::DType;
using compiler::HostTensor;
using compiler::Op;

Tolerance ToleranceOf(Op op, DType dtype) {
  Tolerance tolerance;
  tolerance.zero_signs = op != Op::MAX;
  const bool wide = compiler::ItemSize(dtype) == 8;
  const bool narrow = compiler::IsNarrowFloat(dtype);
  if (op == Op::EXP2 || op == Op::LOG2 || op == Op::SIN) tolerance.ulp = narrow ? 1 : wide ? 4 : 2;
  if (op == Op::POW) tolerance.ulp = narrow ? 1 : wide ? 16 : 4;
  return tolerance;
}

std::string ElementToString(DType dtype, uint64_t bits) {
  if (compiler::IsFloat(dtype)) return absl::StrFormat("%.17g (0x%x)", compiler::FloatValue(dtype, bits), bits);
  return compiler::IsSigned(dtype) ? absl::StrCat(static_cast<int64_t>(bits)) : absl::StrCat(bits);
}

namespace {

// A float's pattern as an integer that counts the floats from 0 on.
int64_t Rank(DType dtype, uint64_t bits) {
  const uint64_t sign = uint64_t{1} << (8 * compiler::ItemSize(dtype) - 1);
  const auto magnitude = static_cast<int64_t>(bits & (sign - 1));
  return bits & sign ? -magnitude : magnitude;
}

bool SameFloat(DType dtype, uint64_t got, uint64_t want, Tolerance tolerance) {
  const double a = compiler::FloatValue(dtype, got), b = compiler::FloatValue(dtype, want);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == 0 && b == 0) return got == want || !tolerance.zero_signs || tolerance.ulp > 0;
  if (std::isinf(a) != std::isinf(b) && tolerance.ulp == 0) return false;
  const int64_t x = Rank(dtype, got), y = Rank(dtype, want);
  if ((x < 0) != (y < 0)) return std::llabs(x) + std::llabs(y) <= tolerance.ulp;
  return std::llabs(x - y) <= tolerance.ulp;
}

}  // namespace

std::string CompareElement(DType dtype, uint64_t got, uint64_t want, Tolerance tolerance) {
  const bool same = compiler::IsFloat(dtype) ? SameFloat(dtype, got, want, tolerance) : got == want;
  if (same) return "";
  return absl::StrCat("got ", ElementToString(dtype, got), ", want ", ElementToString(dtype, want));
}

std::string CompareTensors(const HostTensor& got, const HostTensor& want, Tolerance tolerance) {
  if (got.dtype != want.dtype || got.shape != want.shape || got.bytes.size() != want.bytes.size()) {
    return absl::StrCat("got ", compiler::Name(got.dtype), " ", compiler::ToString(got.shape), " in ", got.bytes.size(),
                        " bytes, want ", compiler::Name(want.dtype), " ", compiler::ToString(want.shape), "\n");
  }
  if (got.bytes == want.bytes) return "";
  const int item = compiler::ItemSize(want.dtype);
  std::string report;
  int64_t differ = 0;
  const auto count = static_cast<int64_t>(want.bytes.size()) / item;
  for (int64_t i = 0; i < count; ++i) {
    const std::string difference =
        CompareElement(want.dtype, compiler::LoadElement(want.dtype, got.bytes.data() + i * item),
                       compiler::LoadElement(want.dtype, want.bytes.data() + i * item), tolerance);
    if (difference.empty()) continue;
    if (++differ <= 4)
      absl::StrAppend(&report, "  element ", i, " of ", compiler::ToString(want.shape), ": ", difference, "\n");
  }
  if (differ > 4) absl::StrAppend(&report, "  … ", differ, " of ", count, " elements differ\n");
  return report;
}

std::string CompareOutcomes(const compiler::InterpResult& got, const compiler::InterpResult& want,
                            Tolerance tolerance) {
  if (got.results.size() != want.results.size() || got.written.size() != want.written.size()) {
    return absl::StrCat("got ", got.results.size(), " results and ", got.written.size(), " written slots, want ",
                        want.results.size(), " and ", want.written.size(), "\n");
  }
  std::string report;
  for (size_t i = 0; i < want.results.size(); ++i) {
    const std::string difference = CompareTensors(got.results[i], want.results[i], tolerance);
    if (!difference.empty())
      absl::StrAppend(&report, " result ", i, ", ", compiler::Name(want.results[i].dtype), "\n", difference);
  }
  for (const auto& [slot, tensor] : want.written) {
    const auto found = got.written.find(slot);
    const std::string difference =
        found == got.written.end() ? "  not written\n" : CompareTensors(found->second, tensor, tolerance);
    if (!difference.empty())
      absl::StrAppend(&report, " slot ", slot, ", ", compiler::Name(tensor.dtype), "\n", difference);
  }
  return report;
}

}  // namespace kiln::testing
