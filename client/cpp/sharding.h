// Tensors on several devices.
//
//   const Devices devices = {"CPU:0", "CPU:1"};
//   Graph graph;
//   Tensor x = graph.Param(0, v1::FLOAT32, {64, 8}, "x", devices);      // a share of the rows each
//   Tensor w = WholeParam(graph, 1, v1::FLOAT32, {8, 4}, devices, "w");  // whole on each
//   Tensor y = Matmul(x, w);
//   graph.Output(y);                                  // split like x
//   graph.Output(Sum(y, 0));                          // added up, whole on each
//
//   client->UploadShards(HostTensor::Of<float>({64, 8}, rows), devices)     // for x: DeviceShards
//   client->UploadWhole(HostTensor::Of<float>({8, 4}, weights), devices)    // for w
//   program.Run(Arguments().Set(0, xs).Set(1, ws)) gives DeviceShards, for Client::Download
//
// What an op does to a split axis follows from the op; a reduction over it is a
// collective. Moves are asked for, by the functions below. A parameter that is whole on
// n devices is n rows of a tensor of one more axis, and so is a tensor by value for it.
// Errors are kept in the graph (graph.h); shares that are not equal are UNSUPPORTED_SHARD.
#ifndef KILN_CLIENT_CPP_SHARDING_H_
#define KILN_CLIENT_CPP_SHARDING_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/graph.h"

namespace kiln::client {

// A parameter that is whole on each of several devices. (One that is split is a
// Graph::Param with devices.) Graph::Assign and Update take it as any other.
Tensor WholeParam(Graph& graph, uint32_t slot, v1::DType dtype, const Sizes& shape, const Devices& devices,
                  absl::string_view name = "");

// On one device, whole; on several, a share of the first axis each.
Tensor CopyTo(Tensor x, const Devices& devices);
// A share of `axis` on each device.
Tensor Shard(Tensor x, const Devices& devices, int64_t axis = 0);
// Whole on each device.
Tensor Replicate(Tensor x, const Devices& devices);
// Of equal rows, one on each device: the row, whole on each.
Tensor Replicated(Tensor rows);
// The shares of a first axis that is split over `parts` devices, combined by ADD, MUL or
// MAX, on each of them.
Tensor AllReduce(Tensor x, int64_t parts, v1::Op op = v1::ADD);

// A graph for one device on several: the parameters in `split` in equal shares of their
// first axis, all others whole on each, so that data-parallel training is one line.
// UNKNOWN_ARGUMENT for a slot that is not there, UNSUPPORTED_OP for a graph with calls.
absl::StatusOr<v1::Graph> Spread(const v1::Graph& graph, const Devices& devices, std::set<uint32_t> split = {});

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_SHARDING_H_
