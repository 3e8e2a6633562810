#include "compiler/target/cstyle/literal.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/float_bits.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

// The shortest decimal that reads back as the same float, always with a point.
template <typename T>
std::string Shortest(T value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string FloatText(DType dtype, double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "(-INFINITY)" : "INFINITY";
  const std::string text =
      dtype == DType::kFloat64 ? Shortest(value) : absl::StrCat(Shortest(static_cast<float>(value)), "f");
  return std::signbit(value) ? absl::StrCat("(", text, ")") : text;
}

std::string IntText(DType dtype, uint64_t bits) {
  if (IsUnsigned(dtype)) return absl::StrCat(bits, ItemSize(dtype) == 8 ? "ul" : ItemSize(dtype) == 4 ? "u" : "");
  const auto value = static_cast<int64_t>(bits);
  // The least integers have no literal of their own: their digits overflow first.
  if (dtype == DType::kInt64 && value == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807-1)";
  if (dtype == DType::kInt32 && value == std::numeric_limits<int32_t>::min()) return "(-2147483647-1)";
  return value < 0 ? absl::StrCat("(", value, ")") : absl::StrCat(value);
}

}  // namespace

UOp* ConstOrBits(Graph& graph, UOp* uop) {
  if (!uop->IsConst() || !IsFloat(uop->dtype()) || IsWeak(uop->dtype())) return uop;
  const uint64_t bits = uop->arg_as<ConstArg>().bits;
  const uint64_t nan = FloatToBits(ToWire(uop->dtype()), std::numeric_limits<double>::quiet_NaN());
  if (!std::isnan(BitsToFloat(ToWire(uop->dtype()), bits)) || bits == nan) return uop;
  return Bitcast(graph, ConstBits(graph, UnsignedOfSize(ItemSize(uop->dtype())), bits), uop->dtype());
}

std::string LiteralText(Prelude& prelude, DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::kBool: return bits != 0 ? "true" : "false";
    case DType::kInt32:
    case DType::kUint32:
    case DType::kUint64: return IntText(dtype, bits);
    case DType::kFloat32:
    case DType::kFloat64: return FloatText(dtype, BitsToFloat(ToWire(dtype), bits));
    case DType::kFloat16:
      return absl::StrCat("(", prelude.Type(dtype), ")(", FloatText(dtype, BitsToFloat(ToWire(dtype), bits)), ")");
    default: break;
  }
  return absl::StrCat("(", prelude.Type(dtype), ")(", IntText(dtype, bits), ")");
}

}  // namespace kiln::compiler
