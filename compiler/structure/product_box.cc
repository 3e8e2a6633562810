#include "compiler/structure/product_box.h"

#include <algorithm>

#include "compiler/ir/dtype.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kPiece = 8;  // elements in 16 bytes
constexpr int64_t kMaxIndices = int64_t{1} << 32, kStepEnd = int64_t{1} << 39;

bool IsStep(int64_t step) { return step > 0 && step % kPiece == 0 && step < kStepEnd; }
bool IsSize(int64_t size) { return size > 0 && size <= kMaxIndices; }

void AddTo(PlaceForm& form, const UOp* uop, int64_t factor) {
  if (uop->IsConst()) {
    form.constant += factor * uop->const_int();
  } else if (uop->op() == Op::ADD) {
    AddTo(form, uop->src(0), factor);
    AddTo(form, uop->src(1), factor);
  } else if (uop->op() == Op::MUL && uop->src(1)->IsConst()) {
    AddTo(form, uop->src(0), factor * uop->src(1)->const_int());
  } else if (uop->op() == Op::CAST && IsInt(uop->src(0)->dtype())) {
    AddTo(form, uop->src(0), factor);  // places fit in what they are computed in
  } else {
    form.Add(uop, factor);
  }
}

}  // namespace

void PlaceForm::Add(const UOp* uop, int64_t factor) {
  const auto found = std::find_if(terms.begin(), terms.end(), [&](const auto& term) { return term.first == uop; });
  if (found == terms.end()) {
    if (factor != 0) terms.emplace_back(uop, factor);
  } else if ((found->second += factor) == 0) {
    terms.erase(found);
  }
}

void PlaceForm::Add(const PlaceForm& other, int64_t factor) {
  constant += factor * other.constant;
  for (const auto& [uop, each] : other.terms) Add(uop, factor * each);
}

PlaceForm PlaceFormOf(const UOp* uop) {
  PlaceForm form;
  AddTo(form, uop, 1);
  return form;
}

std::optional<ProductBox> BoxOf(const PlaceForm& place, int64_t size, int64_t step, int64_t step_k, int64_t reduced) {
  if ((step == 1) == (step_k == 1) || place.constant < 0 || place.constant % kPiece != 0) return std::nullopt;
  ProductBox box;
  box.begin = place.constant;
  box.rows_beside_each_other = step == 1;
  box.inner = box.rows_beside_each_other ? size : reduced;
  box.outer = box.rows_beside_each_other ? reduced : size;
  box.step = box.rows_beside_each_other ? step_k : step;
  if (!IsStep(box.step) || !IsSize(box.inner) || !IsSize(box.outer) || place.terms.size() > 1) return std::nullopt;
  if (place.terms.empty()) return box;
  const Bounds bounds = place.terms[0].first->bounds();
  if (!bounds.known || bounds.min < 0 || bounds.max >= kMaxIndices) return std::nullopt;
  box.matrix_step = place.terms[0].second;
  box.matrices = static_cast<int64_t>(bounds.max) + 1;
  return IsStep(box.matrix_step) ? std::optional(box) : std::nullopt;
}

std::optional<ProductBox> BoxOf(const GroupProduct::Side& side, int64_t reduced) {
  if (!side.IsPlain()) return std::nullopt;
  PlaceForm place = PlaceFormOf(side.offset);
  place.Add(PlaceFormOf(side.first), -side.step);
  return BoxOf(place, side.size, side.step, side.step_k, reduced);
}

}  // namespace kiln::compiler
