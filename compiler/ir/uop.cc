#include "compiler/ir/uop.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln::compiler {

const std::string UOp::kNoDevice;

int64_t NumElements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

bool IsConst(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.IsConst(); });
}

int64_t MaxElements(const Shape& shape) {
  int64_t n = 1;
  for (const Dim& dim : shape) n *= dim.max();
  return n;
}

std::string ToString(const Shape& shape) {
  const auto text = [](std::string* out, const Dim& dim) {
    absl::StrAppend(out, dim.IsConst() ? absl::StrCat(dim.max()) : ToString(dim.expr()));
  };
  return absl::StrCat("(", absl::StrJoin(shape, ", ", text), shape.size() == 1 ? ",)" : ")");
}

std::string ToString(const UOp* size) {
  const auto call = [size](absl::string_view name) {
    return absl::StrCat(name, "(", ToString(size->src(0)), ", ", ToString(size->src(1)), ")");
  };
  switch (size->op()) {
    case Op::CONST: return absl::StrCat(size->const_int());
    case Op::PARAM:
      return size->arg_as<BufferArg>().name.empty() ? absl::StrCat("v", size->arg_as<BufferArg>().slot)
                                                    : size->arg_as<BufferArg>().name;
    case Op::CAST: return ToString(size->src(0));
    case Op::ADD: return absl::StrCat(ToString(size->src(0)), " + ", ToString(size->src(1)));
    case Op::MUL: {
      const auto factor = [](const UOp* uop) {
        return uop->op() == Op::ADD ? absl::StrCat("(", ToString(uop), ")") : ToString(uop);
      };
      return absl::StrCat(factor(size->src(0)), "*", factor(size->src(1)));
    }
    default: return call(Name(size->op()));
  }
}

}  // namespace kiln::compiler
