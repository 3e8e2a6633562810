#include "server/engine/batching/join.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/executions/arguments.h"

namespace kiln::server {

std::optional<std::pair<BatchKind, BatchPart>> PartOf(const ProgramStore::Program& program, ExecuteRequest& request,
                                                      const BufferTable& buffers, const Account* payer) {
  if (!program->rows.has_value() || program->program->single() == nullptr) return std::nullopt;
  if (!request.results_inline || request.results_named || request.settled_by_caller || request.started != nullptr ||
      request.submitted != nullptr)
    return std::nullopt;
  const ProgramRows& rows = *program->rows;
  BoundArguments bound;
  if (!MatchArguments(*program->program, request.arguments, bound).ok()) return std::nullopt;
  BatchKind kind{program, payer};
  BatchPart part;
  part.request = &request;
  part.rows = bound.variables[rows.variable];
  if (part.rows < 1) return std::nullopt;
  for (size_t i = 0; i < bound.arguments.size(); ++i) {
    const Argument* argument = bound.arguments[i];
    if (argument == nullptr) return std::nullopt;
    if (rows.parameters[i]) {
      const auto* tensor = std::get_if<TensorView>(&argument->value);
      if (tensor == nullptr || !CheckTensor(*program->program, i, bound.variables, *tensor).ok()) return std::nullopt;
      part.bytes += tensor->data.size();
    } else if (const auto* record = std::get_if<BufferTable::Record>(&argument->value)) {
      kind.shared.push_back(*record);
    } else if (const auto* address = std::get_if<BufferAddress>(&argument->value);
               address != nullptr && request.may_wait && address->offset == 0) {
      auto found = buffers.Find(address->handle, request.caller.get());
      if (!found.ok()) return std::nullopt;
      kind.shared.push_back(*std::move(found));
    } else {
      return std::nullopt;  // by value, each has its own
    }
  }
  auto memory = kind.shared.begin();
  for (size_t i = 0; i < bound.arguments.size(); ++i) {
    if (!rows.parameters[i]) request.arguments[bound.arguments[i] - request.arguments.data()].value = *memory++;
  }
  for (const runtime::ProgramValue& result : program->program->results())
    part.result_bytes += result.shape.BytesAt(bound.variables);
  part.bytes += part.result_bytes;
  kind.variables.assign(bound.variables.begin(), bound.variables.end());
  kind.variables.erase(kind.variables.begin() + static_cast<ptrdiff_t>(rows.variable));
  part.variables = std::move(bound.variables);
  part.arguments = std::move(bound.arguments);
  return std::make_pair(std::move(kind), std::move(part));
}

void Join(const BatchKind& kind, absl::Span<const BatchPart* const> parts, JoinedRun& joined) {
  const ProgramStore::Program& program = kind.program;
  const ProgramRows& rows = *program->rows;
  const BatchPart& first = *parts[0];
  for (const BatchPart* part : parts) joined.rows += part->rows;
  joined.request.program = program;
  joined.request.of_several = true;
  joined.request.results_inline = true;
  joined.request.caller = first.request->caller;
  const auto& variables = program->program->variables();
  for (size_t i = 0; i < variables.size(); ++i)
    joined.request.arguments.push_back({variables[i].slot, i == rows.variable ? joined.rows : first.variables[i]});
  auto shared = kind.shared.begin();
  for (size_t i = 0; i < first.arguments.size(); ++i) {
    if (!rows.parameters[i]) {
      joined.request.arguments.push_back({first.arguments[i]->slot, *shared++});
      continue;
    }
    std::string& bytes = joined.bytes.emplace_back();
    for (const BatchPart* part : parts) absl::StrAppend(&bytes, std::get<TensorView>(part->arguments[i]->value).data);
    const auto& tensor = std::get<TensorView>(first.arguments[i]->value);
    std::vector<int64_t>& shape = joined.shapes.emplace_back(tensor.shape.begin(), tensor.shape.end());
    shape[0] = shape[0] / first.rows * joined.rows;
    joined.request.arguments.push_back({first.arguments[i]->slot, TensorView{tensor.dtype, shape, bytes}});
  }
}

absl::InlinedVector<ResultValue, 4> Share(const ProgramRows& program, absl::Span<const ResultValue> whole, int64_t all,
                                          int64_t first, int64_t rows) {
  absl::InlinedVector<ResultValue, 4> share;
  for (const ResultValue& value : whole) {
    ResultValue& mine = share.emplace_back();
    mine.index = value.index;
    mine.shape = value.shape;
    if (!program.results[static_cast<size_t>(value.index)]) {
      mine.data = value.data;
      continue;
    }
    mine.shape[0] = value.shape[0] / all * rows;
    const size_t row = value.data.size() / static_cast<size_t>(all);
    mine.data = value.data.substr(static_cast<size_t>(first) * row, static_cast<size_t>(rows) * row);
  }
  return share;
}

}  // namespace kiln::server
