#include "compiler/options/options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln::compiler {

std::string Options::Fingerprint() const {
  return absl::StrCat("contraction=", contraction, " deterministic=", deterministic, " fast_math=", fast_math,
                      " strict=", strict, " guard_arrays=", guard_arrays, " beam=", beam, " budget=", beam_budget_ms,
                      " constants=", absl::StrJoin(constants, ","), " disabled=", absl::StrJoin(disabled_passes, ","));
}

}  // namespace kiln::compiler
