// Compile options, from the protocol to the compiler.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_COMPILE_OPTIONS_H_
#define KILN_SERVER_ENGINE_PROGRAMS_COMPILE_OPTIONS_H_

#include <algorithm>

#include "compiler/options/options.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::server {

// Limits stay the default; the engine sets its own.
inline compiler::Options ToOptions(const v1::CompileOptions& message) {
  compiler::Options options;
  options.contraction = !message.no_contraction();
  options.deterministic = message.deterministic();
  options.fast_math = message.fast_math();
  options.strict = message.strict();
  options.beam = message.beam();
  options.beam_budget_ms = message.beam_budget_ms();
  options.constants.assign(message.constant_slots().begin(), message.constant_slots().end());
  std::sort(options.constants.begin(), options.constants.end());
  options.constants.erase(std::unique(options.constants.begin(), options.constants.end()), options.constants.end());
  return options;
}

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_COMPILE_OPTIONS_H_
