// Tested by client/cli/text/text_test.cc, and by the case run.files (tests/clients/cases/run.json).
#include "client/cpp/files/graph_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/graph/graph_text.h"

namespace kiln::client {
namespace {

// Keeps the first thing protobuf's text parser says.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text.empty()) text = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  std::string text;
};

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  return std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
}

// As the message travels.
bool IsMessage(absl::string_view path) {
  return absl::EndsWith(path, ".pb") || absl::EndsWith(path, ".binpb") || absl::EndsWith(path, ".kgraph");
}

}  // namespace

absl::StatusOr<v1::Graph> ReadGraph(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  if (path == "-" || absl::EndsWith(path, ".uop")) {
    absl::StatusOr<v1::Graph> graph = ParseGraph(file);
    if (!graph.ok()) return Annotate(graph.status(), path);
    return graph;
  }
  v1::Graph graph;
  if (absl::EndsWith(path, ".txtpb") || absl::EndsWith(path, ".textproto")) {
    FirstError error;
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    if (!parser.ParseFromString(file, &graph)) {
      return MakeError(v1::MALFORMED_MESSAGE, absl::StrCat(path, ": ", error.text));
    }
  } else if (IsMessage(path)) {
    if (!graph.ParseFromString(file)) {
      return MakeError(v1::MALFORMED_MESSAGE, absl::StrCat(path, ": no serialized kiln.v1.Graph"));
    }
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": a graph's file ends in .uop, .txtpb, .pb or .kgraph; kiln import makes one of an ONNX model"));
  }
  return graph;
}

absl::Status WriteGraph(const v1::Graph& graph, const std::string& path) {
  const bool text = absl::EndsWith(path, ".uop");
  if (!text && !IsMessage(path))
    return absl::InvalidArgumentError(absl::StrCat(path, ": a graph is written to .uop, .pb or .kgraph"));
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << (text ? PrintGraph(graph) : graph.SerializeAsString());
  stream.close();
  if (stream) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace kiln::client
