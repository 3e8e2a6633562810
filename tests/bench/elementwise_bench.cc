// Work of one element at a time, and of moving elements: what memory allows is the
// measure of nearly all of it. Sizes of the last-level cache and of memory.
#include "tests/bench/suite/hand.h"
#include "tests/bench/suite/peers.h"
#include "tests/bench/suite/suite.h"

namespace kiln::bench {
namespace {

using client::Tensor;
using Inputs = std::vector<Tensor>;

std::string CountText(int64_t count) {
  return count % (1 << 20) == 0 ? std::to_string(count >> 20) + "M" : std::to_string(count);
}

Row MulAdd(int64_t count) {
  const Input input = {{count}};
  return {.name = "a*b+c " + CountText(count),
          .bytes = 16.0 * static_cast<double>(count),
          .inputs = {input, input, input},
          .program = [](const Inputs& in) { return in[0] * in[1] + in[2]; },
          .peers = {HandMulAdd(count, false), HandMulAdd(count, true)}};
}

// Eight operations; HandChain has the same.
Tensor Chain(const Inputs& in) {
  const Tensor x = in[0], y = in[1];
  const Tensor v = client::Maximum((x * y + x) * 0.5 - y, x);
  return (v * v + 1.0) * y;
}

Row EightOps(int64_t count) {
  return {.name = "8 operations " + CountText(count),
          .bytes = 12.0 * static_cast<double>(count),
          .inputs = {{{count}}, {{count}}},
          .program = Chain,
          .peers = {HandChain(count, false), HandChain(count, true)}};
}

Row Each(const std::string& name, Tensor (*program)(const Inputs&), float low, float high, int64_t count,
         std::vector<Peer> peers) {
  return {.name = name + " " + CountText(count),
          .elements = static_cast<double>(count),
          .bytes = 8.0 * static_cast<double>(count),
          .inputs = {{{count}, low, high}},
          .program = program,
          .peers = std::move(peers),
          .tolerance = 2e-6};
}

Row Transpose(int64_t n) {
  return {.name = "transpose " + std::to_string(n) + "^2",
          .bytes = 8.0 * static_cast<double>(n * n),
          .inputs = {{{n, n}}},
          .program = [](const Inputs& in) { return client::Transpose(in[0]); },
          .peers = {HandTranspose(n), OneDnnTranspose(n)},
          .tolerance = 0};
}

Row CumSum(int64_t count) {
  return {.name = "cumsum " + CountText(count),
          .bytes = 8.0 * static_cast<double>(count),
          .inputs = {{{count}, 0, 1}},
          .program = [](const Inputs& in) { return client::CumSum(in[0], 0); },
          .peers = {HandRunningSum(count)}};
}

Row Gather(bool one_hot, int32_t table, int64_t width, int64_t ids) {
  return {
      .name = std::string(one_hot ? "embedding by one-hot " : "embedding ") + std::to_string(ids) + " of " +
              std::to_string(table) + " x " + std::to_string(width),
      .bytes = static_cast<double>(ids * (8 * width + 4)),
      .inputs = {{{table, width}}, {{ids}, 0, 0, table}},
      .program =
          one_hot
              ? [](const Inputs& in) { return client::Matmul(client::OneHot(in[1], in[0].dim(0), v1::FLOAT32), in[0]); }
              : [](const Inputs& in) { return client::Embedding(in[0], in[1]); },
      .peers = {HandGather(ids, width)},
      .tolerance = 0};
}

std::vector<Row> Rows(bool smoke) {
  std::vector<Row> rows;
  for (const int64_t count : smoke ? std::vector<int64_t>{1040} : std::vector<int64_t>{1 << 20, 64 << 20}) {
    rows.push_back(MulAdd(count));
    rows.push_back(EightOps(count));
    rows.push_back(Each("exp", [](const Inputs& in) { return client::Exp(in[0]); }, -10, 10, count,
                        {Mvec("expf", count), HandExp(count), OneDnnElementwise(Function::kExp, count)}));
    rows.push_back(Each("log", [](const Inputs& in) { return client::Log(in[0]); }, 0.001f, 20, count,
                        {Mvec("logf", count), OneDnnElementwise(Function::kLog, count)}));
    rows.push_back(Each("tanh", [](const Inputs& in) { return client::Tanh(in[0]); }, -5, 5, count,
                        {Mvec("tanhf", count), OneDnnElementwise(Function::kTanh, count)}));
    rows.push_back(
        Each("sin", [](const Inputs& in) { return client::Sin(in[0]); }, -20, 20, count, {Mvec("sinf", count)}));
  }
  const std::vector<Row> moves =
      smoke ? std::vector<Row>{Transpose(48), CumSum(512), Gather(false, 50, 32, 20), Gather(true, 50, 32, 20)}
            : std::vector<Row>{Transpose(1024), Transpose(8192), CumSum(1 << 20), Gather(false, 32000, 768, 4096),
                               Gather(true, 1000, 768, 512)};
  rows.insert(rows.end(), moves.begin(), moves.end());
  return rows;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::RunSuite(argc, argv, "elementwise", kiln::bench::Rows); }
