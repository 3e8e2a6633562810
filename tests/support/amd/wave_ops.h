// What a wavefront's items do together: the instructions of AMD's that exchange values.
#ifndef KILN_TESTS_SUPPORT_AMD_WAVE_OPS_H_
#define KILN_TESTS_SUPPORT_AMD_WAVE_OPS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln::testing::amd {

// One item's part: where its result goes, and where its operands are. Of an item that is not there: nulls.
struct WaveLane {
  void* result = nullptr;
  void* const* operands = nullptr;
};

struct WaveOp {
  const char* name;  // LLVM's, with the types behind it
  void (*run)(absl::Span<const WaveLane> lanes);
};

absl::Span<const WaveOp> WaveOps();
// Those of them that multiply matrices.
absl::Span<const WaveOp> MatrixOps();
// Null if it is not known.
const WaveOp* FindWaveOp(absl::string_view name);

}  // namespace kiln::testing::amd

#endif  // KILN_TESTS_SUPPORT_AMD_WAVE_OPS_H_
