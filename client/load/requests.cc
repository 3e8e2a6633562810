#include "client/load/requests.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "client/cli/text/graph_file.h"
#include "client/cli/text/tensor_text.h"
#include "kiln/v1/buffer_service.pb.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::load {
namespace {

constexpr char kNumber[] = "{n}";
// Of an upload's message.
constexpr uint64_t kChunk = 1 << 20;
// Numbers of another seed are others, for as long as few enough are used.
constexpr uint64_t kNumbersOfASeed = 100'000;

grpc::ByteBuffer ToMessage(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// What the program is called with, by slot: buffers, which go to `kept`, or values; of variables, the greatest.
absl::StatusOr<client::Arguments> ArgumentsOf(client::Client& client, const client::Program& program, bool by_value,
                                              uint64_t seed, std::vector<client::DeviceBuffer>& kept) {
  client::Arguments arguments;
  std::mt19937_64 random(seed);
  kept.reserve(static_cast<size_t>(program.signature().parameters_size()));
  for (const v1::Signature::Parameter& parameter : program.signature().parameters()) {
    const client::Shape shape(parameter.shape().begin(), parameter.shape().end());
    const client::HostTensor tensor = cli::RandomTensor(parameter.dtype(), shape, random);
    if (by_value) {
      arguments.Set(parameter.slot(), tensor);
      continue;
    }
    KILN_ASSIGN_OR_RETURN(client::DeviceBuffer buffer, client.Upload(tensor));
    kept.push_back(std::move(buffer));
    arguments.Set(parameter.slot(), kept.back());
  }
  for (const v1::Signature::Variable& variable : program.signature().variables()) {
    if (!variable.has_default_value()) arguments.Set(variable.slot(), int64_t{variable.max_value()});
  }
  return arguments;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || text.empty()) return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ", or it is empty"));
  return text;
}

}  // namespace

absl::StatusOr<Requests> Requests::Make(client::Client& client, const ClassSpec& spec, const std::string& device,
                                        uint64_t seed) {
  Requests made;
  made.device_ = device;
  switch (spec.kind) {
    case Kind::kExecute: {
      made.method_ = "/kiln.v1.KernelService/Execute";
      KILN_ASSIGN_OR_RETURN(v1::Graph graph, cli::ReadGraph(spec.graph));
      KILN_ASSIGN_OR_RETURN(const client::Program program, client.Compile(std::move(graph)));
      KILN_ASSIGN_OR_RETURN(const client::Arguments arguments,
                            ArgumentsOf(client, program, spec.inline_arguments, seed, made.buffers_));
      // Once here, where what is wrong can be said.
      KILN_RETURN_IF_ERROR(program.Run(arguments, {.results = v1::RESULT_INLINE}).status());
      v1::ExecuteRequest request;
      request.set_graph_hash(program.hash());
      request.set_device(device);
      *request.mutable_arguments() = arguments.list();
      request.set_result_mode(v1::RESULT_INLINE);
      made.messages_.push_back(ToMessage(request));
      return made;
    }
    case Kind::kUpload: {
      made.method_ = "/kiln.v1.BufferService/Write";
      KILN_ASSIGN_OR_RETURN(client::DeviceBuffer buffer, client.Allocate(spec.bytes));
      v1::WriteRequest request;
      request.mutable_header()->mutable_buffer()->set_handle(buffer.handle());
      request.mutable_header()->set_bytes(spec.bytes);
      made.messages_.push_back(ToMessage(request));
      made.buffers_.push_back(std::move(buffer));
      request.set_chunk(std::string(std::min(kChunk, spec.bytes), 'u'));
      const grpc::ByteBuffer whole = ToMessage(request);
      for (uint64_t left = spec.bytes; left > 0; left -= std::min(kChunk, left)) {
        if (left < kChunk) request.set_chunk(std::string(left, 'u'));
        made.messages_.push_back(left < kChunk ? ToMessage(request) : whole);
      }
      return made;
    }
    case Kind::kCompile: {
      made.method_ = "/kiln.v1.KernelService/Compile";
      KILN_ASSIGN_OR_RETURN(const std::string text, ReadText(spec.graph));
      made.pieces_ = absl::StrSplit(text, kNumber);
      made.number_ = seed * kNumbersOfASeed;
      KILN_ASSIGN_OR_RETURN(v1::Graph graph, ParseGraph(absl::StrJoin(made.pieces_, absl::StrCat(made.number_++))));
      KILN_RETURN_IF_ERROR(client.Compile(std::move(graph)).status());
      return made;
    }
  }
  return made;
}

std::vector<grpc::ByteBuffer> Requests::Next() {
  if (pieces_.empty()) return messages_;
  v1::CompileRequest request;
  // It could be read with another number.
  if (auto graph = ParseGraph(absl::StrJoin(pieces_, absl::StrCat(number_++))); graph.ok()) {
    *request.mutable_graph() = *std::move(graph);
  }
  request.set_device(device_);
  return {ToMessage(request)};
}

}  // namespace kiln::load
