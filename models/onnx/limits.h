// What a model may make the importer do. A model file comes from a stranger: each of its
// numbers is a request, and here is what is granted. Whatever is over is GRAPH_TOO_LARGE
// (base/error.h) with the name of the field here.
#ifndef KILN_MODELS_ONNX_LIMITS_H_
#define KILN_MODELS_ONNX_LIMITS_H_

#include <cstdint>

namespace kiln::onnx {

struct Limits {
  // Bytes of the file, without external data. Protobuf itself reads no more than 2 GiB.
  int64_t file_bytes = (int64_t{2} << 30) - 1;
  // Messages, texts and unknown fields in the file, counted before any of them is made: each takes hundreds of bytes
  // of memory, and as few as two of the file.
  int64_t parts = 4'000'000;
  // Nodes of ONNX imported, counting each turn of a Loop and each use of a function.
  int64_t nodes = 200'000;
  // Turns of one Loop or Scan.
  int64_t turns = 4096;
  // Graphs in graphs and functions in functions.
  int64_t depth = 24;
  // Nodes of the UOp graph: one ONNX node may ask for many.
  int64_t graph_nodes = 1'000'000;
  // Axes of a tensor.
  int64_t rank = 16;
  // Inputs, outputs and initialisers, all together.
  int64_t tensors = 50'000;
  // Bytes of all initialisers and constants together, those that ops make (a window, a forest's tables) with them.
  int64_t constant_bytes = int64_t{16} << 30;
  // Bytes of these that are added up at import (ops/byte_products.h). Over it nothing fails: the program then adds up
  // itself.
  int64_t added_bytes = int64_t{16} << 30;
  // Elements of one tensor that is computed at import, and of all of them together.
  int64_t known_elements = int64_t{1} << 16;
  int64_t known_work = int64_t{1} << 24;
};

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_LIMITS_H_
