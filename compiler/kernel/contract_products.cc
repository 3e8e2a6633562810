#include "compiler/kernel/contract_products.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

// A float32 that was widened from a 16-bit float.
bool IsWidened(const UOp* uop) { return uop->op() == Op::CAST && IsHalf(uop->src(0)->dtype()); }

// The product that `value` is once it has been rounded, or null.
UOp* ProductBehind(UOp* value) {
  if (value->dtype() != DType::kFloat32 || !IsWidened(value) || value->src(0)->op() != Op::CAST) return nullptr;
  UOp* product = value->src(0)->src(0);
  const bool exact = product->op() == Op::MUL && product->dtype() == DType::kFloat32 && IsWidened(product->src(0)) &&
                     IsWidened(product->src(1));
  return exact ? product : nullptr;
}

}  // namespace

UOp* ContractProducts(Graph& graph, UOp* sink) {
  absl::flat_hash_map<UOp*, UOp*> fused;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::REDUCE || uop->arg_as<ReduceArg>().op != Op::ADD) continue;
    UOp* product = ProductBehind(uop->src(0));
    if (product == nullptr) continue;
    std::vector<UOp*> src(uop->src().begin(), uop->src().end());
    src[0] = product;
    fused[uop] = graph.Make(Op::REDUCE, src, uop->arg());
  }
  return fused.empty() ? sink : Substitute(sink, fused, graph);
}

}  // namespace kiln::compiler
