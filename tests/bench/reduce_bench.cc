// What makes less out of more: sums and maxima in every direction, and what is made
// of them: softmax, layer normalization, attention. Sizes of the last-level cache and
// of memory.
#include <cmath>

#include "tests/bench/suite/hand.h"
#include "tests/bench/suite/peers.h"
#include "tests/bench/suite/suite.h"

namespace kiln::bench {
namespace {

using client::Shape;
using client::Tensor;
using Inputs = std::vector<Tensor>;

std::string SizeText(int64_t rows, int64_t columns) { return std::to_string(rows) + " x " + std::to_string(columns); }

// Which elements are taken together.
enum class Along { kAll, kRows, kColumns };

Row ReduceRow(Reduce reduce_op, Along along, int64_t rows, int64_t columns) {
  const bool sum = reduce_op == Reduce::kSum;
  Row row;
  row.name = std::string(sum ? "sum" : "max") + " of ";
  row.bytes = 4.0 * static_cast<double>(rows * columns);
  row.inputs = {{{rows, columns}, 0, 1}};
  switch (along) {
    case Along::kAll:
      row.name += "all";
      row.program = sum ? [](const Inputs& in) { return client::Sum(in[0]); }
                        : [](const Inputs& in) { return client::Max(in[0]); };
      row.peers = {HandReduceAll(reduce_op, rows * columns)};
      break;
    case Along::kRows:
      row.name += "rows";
      row.program = sum ? [](const Inputs& in) { return client::Sum(in[0], 1); }
                        : [](const Inputs& in) { return client::Max(in[0], 1); };
      row.peers = {HandReduceRows(reduce_op, rows, columns)};
      break;
    case Along::kColumns:
      row.name += "columns";
      row.program = sum ? [](const Inputs& in) { return client::Sum(in[0], 0); }
                        : [](const Inputs& in) { return client::Max(in[0], 0); };
      row.peers = {HandReduceColumns(reduce_op, rows, columns)};
      break;
  }
  row.name += ", " + SizeText(rows, columns);
  return row;
}

Row Softmax(int64_t rows, int64_t columns) {
  return {.name = "softmax " + SizeText(rows, columns),
          .bytes = 8.0 * static_cast<double>(rows * columns),
          .inputs = {{{rows, columns}, -8, 8}},
          .program = [](const Inputs& in) { return client::Softmax(in[0], -1); },
          .peers = {OneDnnSoftmax(rows, columns), HandSoftmax(rows, columns)}};
}

// Of each row, as a sum over what a label picks.
Row CrossEntropy(int64_t rows, int64_t columns) {
  return {.name = "cross-entropy " + SizeText(rows, columns),
          .bytes = 4.0 * static_cast<double>(rows * columns),
          .inputs = {{{rows, columns}, -8, 8}, {{rows}, 0, 0, static_cast<int32_t>(columns)}},
          .program =
              [](const Inputs& in) {
                const Tensor truth = client::OneHot(in[1], in[0].dim(1), v1::FLOAT32);
                return -client::Sum(client::LogSoftmax(in[0], 1) * truth, 1);
              },
          .peers = {HandCrossEntropy(rows, columns)}};
}

Row LayerNorm(int64_t rows, int64_t columns) {
  return {.name = "layernorm " + SizeText(rows, columns),
          .bytes = 8.0 * static_cast<double>(rows * columns),
          .inputs = {{{rows, columns}}, {{columns}}, {{columns}}},
          .program = [](const Inputs& in) { return client::LayerNorm(in[0], in[1], in[2]); },
          .peers = {OneDnnLayerNorm(rows, columns), HandLayerNorm(rows, columns)}};
}

Tensor AttentionProgram(const Inputs& in) {
  const Tensor scores = client::Matmul(in[0], client::Transpose(in[1]));
  const double scale = 1 / std::sqrt(static_cast<double>(in[0].dim(-1)));
  return client::Matmul(client::Softmax(scores * scale, -1), in[2]);
}

Row Attention(int64_t heads, int64_t length, int64_t width) {
  const Input input = {{heads, length, width}};
  return {.name = "attention " + std::to_string(heads) + " x " + SizeText(length, width),
          .flops = 4.0 * static_cast<double>(heads * length * length * width),
          .bytes = 16.0 * static_cast<double>(heads * length * width),
          .inputs = {input, input, input},
          .program = AttentionProgram,
          .peers = {AttentionOf("oneDNN", OneDnnSingle, heads, length, width),
                    AttentionOf("OpenBLAS", OpenBlasSingle, heads, length, width)}};
}

std::vector<Row> Rows(bool smoke) {
  std::vector<Row> rows;
  for (const Shape& size : smoke ? std::vector<Shape>{{40, 96}} : std::vector<Shape>{{1024, 1024}, {8192, 8192}}) {
    for (Reduce reduce_op : {Reduce::kSum, Reduce::kMax}) {
      for (Along along : {Along::kAll, Along::kRows, Along::kColumns}) {
        rows.push_back(ReduceRow(reduce_op, along, size[0], size[1]));
      }
    }
  }
  // No whole number of vectors.
  rows.push_back(ReduceRow(Reduce::kSum, Along::kColumns, smoke ? 50 : 1000, smoke ? 77 : 777));
  const std::vector<Row> others =
      smoke ? std::vector<Row>{Softmax(10, 96), LayerNorm(10, 96), CrossEntropy(10, 96), Attention(2, 32, 16)}
            : std::vector<Row>{Softmax(512, 1024),     Softmax(4096, 4096),     LayerNorm(512, 1024),
                               LayerNorm(4096, 4096),  CrossEntropy(512, 1024), CrossEntropy(4096, 4096),
                               Attention(12, 512, 64), Attention(8, 2048, 64)};
  rows.insert(rows.end(), others.begin(), others.end());
  return rows;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::RunSuite(argc, argv, "reduce", kiln::bench::Rows); }
