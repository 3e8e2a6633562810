#include "compiler/target/cstyle/dialect.h"

namespace kiln::compiler {
namespace {

constexpr const Dialect* kDialects[] = {&kDialectC, &kDialectCuda, &kDialectHip, &kDialectOpenCl, &kDialectMetal};

}  // namespace

const TypeRow* Dialect::TypeOf(DType dtype) const {
  for (const TypeRow& row : types) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

const FunctionRow* Dialect::FunctionOf(Op op, DType dtype) const {
  for (const FunctionRow& row : functions) {
    if (row.op == op && row.dtype == dtype) return &row;
  }
  return nullptr;
}

const AtomicRow* Dialect::AtomicOf(DType dtype) const {
  for (const AtomicRow& row : atomics) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

absl::Span<const Dialect* const> Dialects() { return kDialects; }

const Dialect* FindDialect(absl::string_view name) {
  for (const Dialect* dialect : kDialects) {
    if (dialect->name == name) return dialect;
  }
  return nullptr;
}

}  // namespace kiln::compiler
