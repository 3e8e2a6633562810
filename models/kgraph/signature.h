// What goes in and out of a model's graph, as text.
//
// A graph has slots, and results by number; who asks for a model has names. What a .kgraph does not say of itself
// stands in the header of the .safetensors beside it, under "__metadata__":
//
//   {"kiln.signature": "{
//      \"graph\": \"5c7f…\",
//      \"inputs\": [{\"name\": \"x\", \"slot\": 0, \"dtype\": \"float32\", \"shape\": [\"batch\", 16]}],
//      \"sizes\": [{\"name\": \"batch\", \"slot\": 1, \"min\": 1, \"max\": 64}],
//      \"outputs\": [{\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [\"batch\", 4]}]}"}
//
// A size that each call decides is the name of one of `sizes` or, of an output, any text that is no such name: it then
// follows from them. Outputs are in the order of the graph's results. "graph" is the hash of the graph that this was
// written for; it may be left out. Members that are not known are passed over.
#ifndef KILN_MODELS_KGRAPH_SIGNATURE_H_
#define KILN_MODELS_KGRAPH_SIGNATURE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/graph/graph_hash.h"
#include "models/onnx/model.h"

namespace kiln::kgraph {

// Its name under "__metadata__".
inline constexpr char kSignatureKey[] = "kiln.signature";

// Of a model as it was imported. Of inputs it also says whether the graph reads them ("used"), of outputs which result
// they are ("result": null for none).
std::string WriteSignature(const onnx::Model& model);

// The inputs, variables and outputs that `text` says, into a model that has its graph, of this hash, and nothing else;
// Input::used is as the graph has it. An output whose size only follows from others has one that is not valid().
// BAD_ARGUMENT for what is no such text, names one slot or name twice, an input's size that is none of `sizes`, and
// another graph's. Types and shapes are as the text says: only the compiled program knows better.
absl::Status ReadSignature(absl::string_view text, const GraphHash& hash, onnx::Model& model);

}  // namespace kiln::kgraph

#endif  // KILN_MODELS_KGRAPH_SIGNATURE_H_
