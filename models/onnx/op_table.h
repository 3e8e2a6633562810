// Which function imports which op: one row an op, in the file of its family (ops/).
//
// To add an op: a function and a row in its family's file, a case in ops/ or the standard's
// own tests (tests/onnx/README.md), and docs/onnx.md made anew.
#ifndef KILN_MODELS_ONNX_OP_TABLE_H_
#define KILN_MODELS_ONNX_OP_TABLE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "models/onnx/node.h"

namespace kiln::onnx {

using OpFunction = absl::StatusOr<Outputs> (*)(Node&);

// Any number of inputs.
inline constexpr int kAny = 1 << 30;

// Of which domain an op is; its versions count by that.
inline constexpr absl::string_view kStandard = "";
inline constexpr absl::string_view kMl = "ai.onnx.ml";
inline constexpr absl::string_view kMicrosoft = "com.microsoft";
inline constexpr absl::string_view kPreview = "ai.onnx.preview";

struct OpRow {
  absl::string_view name;
  // The first version of the domain whose meaning the function knows.
  int since;
  OpFunction function;
  // Inputs: so many must be given, so many may.
  int least;
  int most;
  absl::string_view domain = kStandard;
  // Whether inputs may be sequences and optionals; else each is a tensor.
  bool sequences = false;
  // Whether numbers of fewer bits than a byte may come as bytes: the op gives the same for them.
  bool narrow = false;
};

// The families.
using OpRows = absl::Span<const OpRow>;
// clang-format off
#define KILN_ONNX_FAMILIES(F) \
  F(ActivationOps) F(AttentionOps) F(BlockOps) F(CastOps) F(ControlOps) F(ConvOps) F(ElementwiseOps) \
  F(FusedAttentionOps) F(FusedOps) F(FusedQuantizedOps) F(GatherOps) F(LogicOps) F(LossOps) F(MatmulOps) \
  F(MlFeatureOps) F(MlLinearOps) F(MlTreeOps) F(MovementOps) F(NgramOps) F(NormalizationOps) F(PlaceOps) F(PoolOps) \
  F(QuantizedOps) F(RecurrentOps) F(ReduceOps) F(ResizeOps) F(SamplingOps) F(ScatterOps) F(SequenceOps) \
  F(ShapeOps) F(SignalOps) F(TrigonometryOps)
// clang-format on
#define KILN_ONNX_DECLARE(family) OpRows family();
KILN_ONNX_FAMILIES(KILN_ONNX_DECLARE)
#undef KILN_ONNX_DECLARE

// The row of the greatest `since` that is not above `opset`. UNSUPPORTED_OP where there is none,
// with the reason: no such op, or from which opset on it is taken.
absl::StatusOr<const OpRow*> FindOp(absl::string_view domain, absl::string_view name, int64_t opset);

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_OP_TABLE_H_
