// Convolutions of one image: the different ones of ResNet-50, in its order. Kiln's are
// of plain (batch, channels, height, width) arguments, of which the weights are said to be
// constant; oneDNN's in the blocked layouts of its choice, with weights that were packed
// beforehand.
#include "tests/bench/suite/peers.h"
#include "tests/bench/suite/suite.h"

namespace kiln::bench {
namespace {

using client::Tensor;
using Inputs = std::vector<Tensor>;

template <int64_t kStride>
Tensor Program(const Inputs& in) {
  const int64_t padding = in[1].dim(-1) / 2;
  return client::Conv2d(in[0], in[1], Tensor(), {.stride = {kStride, kStride}, .padding = {padding, padding}});
}

Row Convolution(const ConvolutionSizes& sizes) {
  const std::string kernel = std::to_string(sizes.kernel);
  const double weights = static_cast<double>(sizes.in * sizes.out * sizes.kernel * sizes.kernel);
  const double image = static_cast<double>(sizes.in * sizes.image * sizes.image);
  const double pixels = static_cast<double>(sizes.side() * sizes.side());
  return {.name = kernel + "x" + kernel + (sizes.stride == 1 ? "" : "/" + std::to_string(sizes.stride)) + " " +
                  std::to_string(sizes.in) + " -> " + std::to_string(sizes.out) + " @" + std::to_string(sizes.image),
          .flops = 2 * weights * pixels,
          .bytes = 4 * (image + weights + pixels * static_cast<double>(sizes.out)),
          .inputs = {{{1, sizes.in, sizes.image, sizes.image}}, {{sizes.out, sizes.in, sizes.kernel, sizes.kernel}}},
          .program = sizes.stride == 1 ? Program<1> : Program<2>,
          .peers = {OneDnnConvolution(sizes)},
          .constants = {1}};
}

// in, out, kernel, stride, image
constexpr ConvolutionSizes kResNet50[] = {
    {3, 64, 7, 2, 224},     {64, 64, 1, 1, 56},   {64, 64, 3, 1, 56},    {64, 256, 1, 1, 56},   {256, 64, 1, 1, 56},
    {256, 128, 1, 1, 56},   {128, 128, 3, 2, 56}, {128, 512, 1, 1, 28},  {256, 512, 1, 2, 56},  {512, 128, 1, 1, 28},
    {128, 128, 3, 1, 28},   {512, 256, 1, 1, 28}, {256, 256, 3, 2, 28},  {256, 1024, 1, 1, 14}, {512, 1024, 1, 2, 28},
    {1024, 256, 1, 1, 14},  {256, 256, 3, 1, 14}, {1024, 512, 1, 1, 14}, {512, 512, 3, 2, 14},  {512, 2048, 1, 1, 7},
    {1024, 2048, 1, 2, 14}, {2048, 512, 1, 1, 7}, {512, 512, 3, 1, 7},
};
constexpr ConvolutionSizes kSmall[] = {{3, 16, 7, 2, 10}, {8, 16, 3, 1, 6}, {16, 8, 1, 2, 6}};

std::vector<Row> Rows(bool smoke) {
  std::vector<Row> rows;
  if (smoke) {
    for (const ConvolutionSizes& sizes : kSmall) rows.push_back(Convolution(sizes));
  } else {
    for (const ConvolutionSizes& sizes : kResNet50) rows.push_back(Convolution(sizes));
  }
  return rows;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::RunSuite(argc, argv, "conv", kiln::bench::Rows); }
