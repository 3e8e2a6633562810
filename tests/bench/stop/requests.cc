// While a request is read, as a server's threads for large requests do it: into messages, and to the hash of its graph.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/graph/graph_hash.h"
#include "kiln/v1/kernel_service.pb.h"
#include "server/services/requests/codec.h"
#include "tests/bench/stop/places.h"

namespace kiln::bench {
namespace {

// As much as a server takes by default.
constexpr uint32_t kNodes = 200'000, kSmokeNodes = 20'000;
constexpr uint64_t kConstantBytes = 60 << 20;

uint32_t NodesFor(const Stops& stops) { return stops.smoke() ? kSmokeNodes : kNodes; }

// As gRPC hands a large message on: in pieces of its frames.
grpc::ByteBuffer InFrames(const std::string& bytes) {
  constexpr size_t kFrame = 16 << 10;
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += kFrame)
    slices.emplace_back(bytes.data() + at, std::min(kFrame, bytes.size() - at));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// One constant that is nearly all of the graph.
v1::Graph OneConstant(uint64_t bytes) {
  v1::Graph graph;
  v1::UOp& node = *graph.add_nodes();
  node.set_op(v1::BINARY);
  node.set_data(std::string(bytes, 'x'));
  return graph;
}

void DecodeRow(Stops& stops, const std::string& name, v1::Graph graph) {
  if (!stops.Wants(name)) return;
  v1::ExecuteRequest request;
  *request.mutable_graph() = std::move(graph);
  const grpc::ByteBuffer bytes = InFrames(request.SerializeAsString());
  request.Clear();
  stops.Row(name, [&](const runtime::hal::LaunchControl& control) {
    // What has been read goes after the caller was answered: to free 60 MiB may take longer than a stop.
    std::vector<std::unique_ptr<v1::ExecuteRequest>> read;
    return Again([&]() -> End {
      read.push_back(std::make_unique<v1::ExecuteRequest>());
      return server::Decode(bytes, {.nodes = kNodes}, *read.back(), control);
    });
  });
}

void HashRow(Stops& stops, const std::string& name, const v1::Graph& graph) {
  if (!stops.Wants(name)) return;
  stops.Row(name, [&](const runtime::hal::LaunchControl& control) {
    return Again([&]() -> End { return HashGraph(graph, [&] { return control.Check(); }).status(); });
  });
}

}  // namespace

void RequestRows(Stops& stops) {
  DecodeRow(stops, "decoding a request: many nodes", LargeGraph(NodesFor(stops)));
  DecodeRow(stops, "decoding a request: a large constant", OneConstant(kConstantBytes));
  HashRow(stops, "hashing a graph: many nodes", LargeGraph(NodesFor(stops)));
  HashRow(stops, "hashing a graph: a large constant", OneConstant(kConstantBytes));
}

}  // namespace kiln::bench
