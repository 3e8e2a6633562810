#include "server/engine/programs/program_rows.h"

#include <algorithm>

namespace kiln::server {
namespace {

bool Names(const v1::SizeExpr& size, int variable) {
  return std::any_of(size.token().begin(), size.token().end(), [variable](const v1::SizeExpr::Token& token) {
    return token.op() == v1::SizeExpr::VARIABLE && token.value() == variable;
  });
}

// Only a leading size may depend on the number of rows, says the proof.
template <typename Tensors>
std::vector<bool> WithRows(const Tensors& tensors, int variable) {
  std::vector<bool> with;
  for (const auto& tensor : tensors) {
    with.push_back(std::any_of(tensor.symbolic().begin(), tensor.symbolic().end(), [variable](const auto& axis) {
      return axis.axis() == 0 && Names(axis.size(), variable);
    }));
  }
  return with;
}

}  // namespace

std::optional<ProgramRows> RowsOf(const v1::Signature& signature) {
  for (int i = 0; i < signature.variables_size(); ++i) {
    if (!signature.variables(i).row_wise()) continue;
    return ProgramRows{static_cast<size_t>(i), signature.variables(i).max_value(), WithRows(signature.parameters(), i),
                       WithRows(signature.results(), i)};
  }
  return std::nullopt;
}

}  // namespace kiln::server
