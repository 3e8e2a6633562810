// Schedules as text, and as the OptOps that a client sends.
//
//   schedule = [ opt { "; " opt } ]
//   opt      = SPLIT "(" axis ", " factor ", " TARGET [ ", top" ] [ ", dim " n ] ")"
//            | PADTO "(" axis ", " multiple [ ", clamp" ] ")"
//            | SWAP "(" axis ", " axis ")"
//            | FUSE "(" axis ")"
//            | LOCAL "(" axis ", " operand ")"
//            | THREAD "(" axis ")"
//            | TC "(" axis ", " axis ", " TILE ")"
// TARGET is what the new axis is: LOOP or UPCAST of an output axis, REDUCE or UNROLL of
// a reduced one; of GPUs also LOCAL (work items) or GLOBAL (groups), and GROUP_REDUCE
// (work items that reduce together). opt/apply.h says what each does. TC has
// the axes of rows and of columns, and TILE is a name of structure/group_product.h: "MMA_64X64".
#ifndef KILN_COMPILER_OPT_SCHEDULE_TEXT_H_
#define KILN_COMPILER_OPT_SCHEDULE_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/opt/apply.h"

namespace kiln::compiler {

// "SPLIT(0, 16, UPCAST); SWAP(0, 1)"
std::string ToString(const OptOp& opt);
std::string ToString(absl::Span<const OptOp> opts);

// BAD_ARGUMENT says at which column something else was expected.
absl::StatusOr<std::vector<OptOp>> ParseSchedule(absl::string_view text);

// The form in which KernelInfo.opts has it (requested.h): THREAD(n) is a SPLIT of factor 0 into threads.
OptArg ToRequest(const OptOp& opt);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_SCHEDULE_TEXT_H_
