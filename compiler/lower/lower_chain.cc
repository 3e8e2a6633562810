#include "compiler/lower/lower_chain.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "compiler/lower/chain_nests.h"
#include "compiler/lower/lower_kernel.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/pass/pipeline.h"

namespace kiln::compiler {
namespace {

// What one core has to itself, beside the slices.
v1::Target OneCore(const v1::Target& target, int64_t local_bytes) {
  v1::Target core = target;
  v1::Target::Tuning& tuning = *core.mutable_tuning();
  const int64_t l2 = tuning.l2_bytes() ? static_cast<int64_t>(tuning.l2_bytes()) : 1 << 20;
  // Of the cache a copy takes three quarters at most (opt/cpu/matmul.cc).
  const int64_t left = std::min(l2 - local_bytes, (kMaxLocalBytes - local_bytes) * 4 / 3);
  tuning.set_l2_bytes(static_cast<uint64_t>(std::max<int64_t>(left, 1)));
  tuning.set_cores(1);
  return core;
}

}  // namespace

absl::StatusOr<UOp*> LowerChain(Lowering& lowering, UOp* kernel) {
  ChainNests nests(lowering.graph, kernel);
  Body whole = std::move(lowering.body);
  std::vector<std::string> given, chosen;
  if (whole.schedule != nullptr) given = absl::StrSplit(*whole.schedule, " | ");
  for (size_t i = 0; i < nests.size(); ++i) {
    const v1::Target core = OneCore(*whole.target, nests.local_bytes());
    const auto lower = [&](const std::string* schedule) {
      lowering.body = Body();
      lowering.body.symbol = absl::StrCat(whole.symbol, ".", i);
      lowering.body.slots = whole.slots + static_cast<uint32_t>(whole.hoisted.size());
      lowering.body.target = &core;
      lowering.body.schedule = schedule;
      return LowerToAccumulators(lowering, nests.Kernel(i));
    };
    KILN_ASSIGN_OR_RETURN(UOp * nest, lower(given.size() == nests.size() ? &given[i] : nullptr));
    if (nests.local_bytes() + LocalBytes(nest) > kMaxLocalBytes) {
      const std::string plain;  // copies nothing
      KILN_ASSIGN_OR_RETURN(nest, lower(&plain));
    }
    nests.SetLowered(i, nest);
    chosen.push_back(std::move(lowering.body.opts));
    whole.gates += lowering.body.gates;
    whole.hoisted.insert(whole.hoisted.end(), lowering.body.hoisted.begin(), lowering.body.hoisted.end());
  }
  lowering.body = std::move(whole);
  lowering.body.opts = absl::StrJoin(chosen, " | ");
  lowering.body.nests = &nests;
  KILN_ASSIGN_OR_RETURN(kernel, RunStage(lowering, Stage::kNests, kernel));
  lowering.body.nests = nullptr;
  return kernel;
}

}  // namespace kiln::compiler
