// Tested by tests/conformance/schedules/core_products_test.cc.
#include "compiler/structure/core_product.h"

#include <vector>

#include "compiler/ir/build.h"

namespace kiln::compiler {

std::optional<CoreProduct> CoreProductOf(const UOp* uop) {
  if (uop->op() != Op::WMMA) return std::nullopt;
  const WmmaArg& arg = uop->arg_as<WmmaArg>();
  if (arg.threads != 1 || arg.n < kTileWords) return std::nullopt;
  const auto side = [&](size_t source, DType dtype) {
    const UOp* place = uop->src(source);
    const absl::Span<UOp* const> numbers = place->src(1)->src();
    return CoreProduct::Side{place->src(0), numbers[0], numbers[1]->const_int(), dtype};
  };
  for (const size_t source : {size_t{0}, size_t{1}}) {
    const UOp* place = uop->src(source);
    if (place->op() != Op::INDEX || place->src().size() != 2 || place->src(1)->op() != Op::STACK ||
        place->src(1)->src().size() != 2 + source)
      return std::nullopt;
  }
  const bool is_signed = uop->src(1)->src(1)->src(2)->const_int() != 0;
  const DType b = arg.in == DType::kBfloat16 ? arg.in : is_signed ? DType::kInt8 : DType::kUint8;
  CoreProduct product{side(0, arg.in), side(1, b), arg.m, arg.n, 0};
  product.words = arg.k / product.terms();
  return product;
}

UOp* MakeCoreProduct(Graph& graph, const CoreProduct& product, UOp* sum) {
  const auto place = [&](const CoreProduct::Side& side, std::vector<UOp*> numbers) {
    numbers.insert(numbers.begin(), {side.first, Idx(graph, side.step)});
    return graph.Make(Op::INDEX, {side.storage, graph.Make(Op::STACK, numbers)});
  };
  WmmaArg arg;
  arg.m = product.rows;
  arg.n = product.columns;
  arg.k = product.words * product.terms();
  arg.in = product.a.dtype;
  arg.out = sum->dtype();
  return graph.Make(
      Op::WMMA, {place(product.a, {}), place(product.b, {Idx(graph, IsSigned(product.b.dtype) ? 1 : 0)}), sum}, arg);
}

}  // namespace kiln::compiler
