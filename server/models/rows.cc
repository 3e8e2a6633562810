#include "server/models/rows.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace kiln::server {
namespace {

const Argument& ArgumentOf(const ExecuteRequest& request, uint32_t slot) {
  const auto found = std::find_if(request.arguments.begin(), request.arguments.end(),
                                  [slot](const Argument& argument) { return argument.slot == slot; });
  KILN_CHECK(found != request.arguments.end());
  return *found;
}

bool Names(const v1::SizeExpr& size, int variable) {
  return std::any_of(size.token().begin(), size.token().end(), [variable](const v1::SizeExpr::Token& token) {
    return token.op() == v1::SizeExpr::VARIABLE && token.value() == variable;
  });
}

}  // namespace

void FindRows(ServedModel& model) {
  const v1::Signature& signature = model.program->signature();
  for (int i = 0; i < signature.variables_size() && !model.rows.has_value(); ++i) {
    const v1::Signature::Variable& variable = signature.variables(i);
    size_t place = 0;
    while (place < model.variables.size() && model.variables[place].slot != variable.slot()) ++place;
    // An input without rows would have to be the same for all.
    const bool all_have =
        std::all_of(model.inputs.begin(), model.inputs.end(), [place](const ServedModel::Input& each) {
          return !each.used || (!each.shape.empty() && each.shape[0].variable == place);
        });
    if (!variable.row_wise() || place == model.variables.size() || !all_have) continue;
    model.rows = place;
    for (int output = 0; output < signature.results_size(); ++output) {
      for (const v1::Signature::SymbolicAxis& axis : signature.results(output).symbolic())
        model.outputs[static_cast<size_t>(output)].has_rows |= axis.axis() == 0 && Names(axis.size(), i);
    }
  }
}

int64_t RowsOf(const ServedModel& model, const ExecuteRequest& request) {
  return std::get<int64_t>(ArgumentOf(request, model.variables[*model.rows].slot).value);
}

uint64_t InputBytesOf(const ExecuteRequest& request) {
  uint64_t bytes = 0;
  for (const Argument& argument : request.arguments) {
    if (const auto* tensor = std::get_if<TensorView>(&argument.value)) bytes += tensor->data.size();
  }
  return bytes;
}

std::vector<int64_t> KindOf(const ServedModel& model, const ExecuteRequest& request) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < model.variables.size(); ++i) {
    if (i != *model.rows && model.variables[i].used)
      values.push_back(std::get<int64_t>(ArgumentOf(request, model.variables[i].slot).value));
  }
  return values;
}

void Join(const ServedModel& model, absl::Span<const ExecuteRequest* const> requests, JoinedRun& joined) {
  const ExecuteRequest& first = *requests[0];
  int64_t all = 0;
  for (const ExecuteRequest* request : requests) all += RowsOf(model, *request);
  joined.request.program = first.program;
  joined.request.results_inline = true;
  joined.request.caller = first.caller;
  joined.request.parts = first.parts;
  for (const Argument& argument : first.arguments) {
    const auto* tensor = std::get_if<TensorView>(&argument.value);
    if (tensor == nullptr) {
      const bool rows = argument.slot == model.variables[*model.rows].slot;
      joined.request.arguments.push_back(rows ? Argument{argument.slot, all} : argument);
      continue;
    }
    std::string& bytes = joined.bytes.emplace_back();
    for (const ExecuteRequest* request : requests)
      absl::StrAppend(&bytes, std::get<TensorView>(ArgumentOf(*request, argument.slot).value).data);
    std::vector<int64_t>& shape = joined.shapes.emplace_back(tensor->shape.begin(), tensor->shape.end());
    shape[0] = all;
    joined.request.arguments.push_back({argument.slot, TensorView{tensor->dtype, shape, bytes}});
  }
}

ExecuteResult PartOf(const ServedModel& model, const ExecuteResult& whole, int64_t all, int64_t first, int64_t rows) {
  ExecuteResult part;
  part.program = whole.program;
  part.from_cache = whole.from_cache;
  part.timing = whole.timing;
  for (const ResultValue& value : whole.results) {
    ResultValue& mine = part.results.emplace_back();
    mine.index = value.index;
    mine.shape = value.shape;
    if (!model.outputs[static_cast<size_t>(value.index)].has_rows) {
      mine.data = value.data;
      continue;
    }
    mine.shape[0] = value.shape[0] / all * rows;
    const size_t row = value.data.size() / static_cast<size_t>(all);
    mine.data = value.data.substr(static_cast<size_t>(first) * row, static_cast<size_t>(rows) * row);
  }
  return part;
}

}  // namespace kiln::server
