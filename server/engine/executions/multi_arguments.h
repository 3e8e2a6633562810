// From what a client sent to what a program for several devices takes.
#ifndef KILN_SERVER_ENGINE_EXECUTIONS_MULTI_ARGUMENTS_H_
#define KILN_SERVER_ENGINE_EXECUTIONS_MULTI_ARGUMENTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/exec/multi_program.h"
#include "runtime/hal/buffer.h"
#include "server/engine/executions/arguments.h"
#include "server/engine/executions/requests.h"

namespace kiln::server {

struct MultiArguments {
  // With numbers for all sizes.
  std::shared_ptr<const runtime::MultiProgram> program;
  // In the order of the signature's variables.
  std::vector<int64_t> variables;
  // One for each share of each parameter. Shares of a tensor by value have fresh memory,
  // into which nothing has been copied yet.
  std::vector<runtime::hal::BufferSlice> slices;
  // In the order of the signature's parameters; and of the shares, for the record.
  std::vector<const Argument*> arguments;
  std::vector<BufferTable::Record> records;  // null for a tensor by value
};

// A parameter on several devices takes one buffer a device (BAD_ARGUMENT for another
// number of them), or the whole tensor by value. All else is as BindArguments has it;
// whether a buffer is on the device it should be, the runtime checks.
absl::Status BindMultiArguments(std::shared_ptr<const runtime::MultiProgram> program,
                                absl::Span<const Argument> arguments, const BufferTable& buffers, const Session* caller,
                                MultiArguments& bound);

// As AddTouched of arguments.h.
void AddTouched(const MultiArguments& bound, Touched& touched);

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_EXECUTIONS_MULTI_ARGUMENTS_H_
