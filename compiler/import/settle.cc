#include "compiler/import/settle.h"

#include "base/error.h"
#include "compiler/import/weak.h"

namespace kiln::compiler {
namespace {

// Ops whose result is strong although every operand may be weak.
bool LeavesWeak(v1::Op op) {
  return op == v1::CMPLT || op == v1::CMPNE || op == v1::NOT || (op >= v1::CMPGT && op <= v1::CMPEQ);
}

}  // namespace

absl::Status MeetSources(Graph& graph, std::vector<UOp*>& src, size_t from) {
  DType dtype = src.size() > from ? src[from]->dtype() : DType::kNone;
  bool all_equal = true;
  for (size_t i = from; i < src.size(); ++i) {
    all_equal &= src[i]->dtype() == src[from]->dtype();
    dtype = Meet(dtype, src[i]->dtype());
    if (dtype == DType::kNone) return absl::OkStatus();  // inference says what is wrong
  }
  if (all_equal || dtype == DType::kVoid) return absl::OkStatus();
  for (size_t i = from; i < src.size(); ++i) {
    if (src[i]->dtype() == dtype) continue;
    KILN_ASSIGN_OR_RETURN(src[i], Strengthen(graph, src[i], dtype));
  }
  return absl::OkStatus();
}

absl::Status SettleWeak(Graph& graph, v1::Op op, std::vector<UOp*>& src) {
  if (op == v1::INDEX) {
    for (size_t i = 1; i < src.size(); ++i) {
      KILN_ASSIGN_OR_RETURN(src[i], StrengthenByDefault(graph, src[i]));
    }
    return absl::OkStatus();
  }
  const bool meets_memory = op == v1::STORE || op == v1::ASSIGN || op == v1::ATOMICADD ||
                            (op == v1::LOAD && !IsWeak(src.empty() ? DType::kWeakint : src[0]->dtype()));
  if (meets_memory && src.size() >= 2 && IsWeak(src[1]->dtype()) && src[0]->dtype() != DType::kVoid) {
    KILN_ASSIGN_OR_RETURN(src[1], Strengthen(graph, src[1], src[0]->dtype()));
  }
  const bool settles = op == v1::TUPLE || op == v1::SINK || op == v1::BITCAST || op == v1::LOAD || op == v1::COPY ||
                       op == v1::CONTIGUOUS || LeavesWeak(op);
  if (!settles) return absl::OkStatus();
  const std::vector<UOp*> weak = src;
  for (UOp*& source : src) {
    KILN_ASSIGN_OR_RETURN(source, StrengthenByDefault(graph, source));
  }
  // What is compared takes the wider of two defaults.
  if (!LeavesWeak(op) || src.size() != 2 || src[0]->dtype() == src[1]->dtype()) return absl::OkStatus();
  for (size_t i = 0; i < 2; ++i) {
    if (!IsWeak(weak[i]->dtype())) continue;
    KILN_ASSIGN_OR_RETURN(src[i], Strengthen(graph, weak[i], DType::kInt64));
  }
  return absl::OkStatus();
}

}  // namespace kiln::compiler
