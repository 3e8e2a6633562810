#include "compiler/search/choose.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "compiler/import/wire.h"
#include "compiler/opt/checked_schedule.h"
#include "compiler/opt/schedule_text.h"
#include "compiler/program/kernel_form.h"
#include "compiler/search/neighbours.h"

namespace kiln::compiler {

absl::StatusOr<Choices> Choose(const v1::Graph& kernel, const v1::Target& target, const Limits& limits,
                               const std::string& from, uint32_t most, const std::function<bool()>& stop) {
  Graph graph;
  KILN_ASSIGN_OR_RETURN(UOp * root, FromWire(kernel, limits, graph));
  KILN_ASSIGN_OR_RETURN(UOp * plain, NormaliseKernel(graph, root));
  if (!IsPlainKernel(plain)) return MakeError(v1::BAD_ARGUMENT, "the kernel takes no OptOps");
  KILN_ASSIGN_OR_RETURN(const Schedule schedule, ParseSchedule(from));
  CheckedSchedule made(graph, plain, target);
  for (const OptOp& opt : schedule) KILN_RETURN_IF_ERROR(made.Apply(opt));
  Choices choices;
  choices.may_thread = made.may_thread();
  if (most == 0) return choices;
  std::vector<Schedule> next = Neighbours(graph, plain, schedule, target, stop);
  next.resize(std::min<size_t>(next.size(), most));
  for (const Schedule& each : next) choices.next.push_back(ToString(each));
  return choices;
}

}  // namespace kiln::compiler
