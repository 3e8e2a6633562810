// Graphs in files, and what the command line calls what is in them.
#ifndef KILN_CLIENT_CLI_TEXT_GRAPH_FILE_H_
#define KILN_CLIENT_CLI_TEXT_GRAPH_FILE_H_

#include <map>
#include <optional>
#include <string>

#include "client/cpp/files/graph_file.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::cli {

using client::ReadGraph;
using client::WriteGraph;

// A graph whose constants lie beside it, as clients read both: model.kgraph and model.safetensors. None for a file that
// is no such.
std::optional<std::string> ConstantsBeside(const std::string& path);

// The names of a graph's PARAMs, by slot; or of a program's parameters, where there is no graph.
std::map<uint32_t, std::string> ParamNames(const v1::Graph& graph);
std::map<uint32_t, std::string> ParamNames(const v1::Graph& graph, const v1::Signature& signature);

// The slot that `word` names: a PARAM's name, or a number. None if there is none such.
std::optional<uint32_t> SlotOf(const v1::Graph& graph, const std::string& word);
std::optional<uint32_t> SlotOf(const std::map<uint32_t, std::string>& names, const std::string& word);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_GRAPH_FILE_H_
