// What lies in a folder of models: FOLDER/name/version/model.onnx, or model.kgraph with model.safetensors beside it,
// and perhaps FOLDER/name/config.pbtxt.
//
// Whoever may write there is an operator's helper at best, so names are believed in nothing: a
// name or a version is one plain word, and a scan goes through no link below the folder.
// A scan reads names and sizes, no contents.
#ifndef KILN_SERVER_MODELS_FOLDER_H_
#define KILN_SERVER_MODELS_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::server {

// The file of a version, one of these two; and the constants of the second (models/kgraph/README.md).
inline constexpr char kModelFile[] = "model.onnx";
inline constexpr char kGraphFile[] = "model.kgraph";
inline constexpr char kConstantsFile[] = "model.safetensors";
// The file beside the versions: what holds for all of them (sequences/sequence_config.h).
inline constexpr char kConfigFile[] = "config.pbtxt";

struct ModelFiles {
  std::string name;
  uint64_t version = 0;
  std::string path;       // of the model's file
  std::string config;     // of the model's settings; empty: there are none
  bool is_graph = false;  // a model.kgraph
  // Why it is not to be loaded, whatever its file says, after the name of a file and ": "; empty: it may be. It is told
  // as any that cannot be loaded: what served before serves on.
  std::string refused;
  // Of all files beside it, and its settings: bytes together, and what changes when one of them does.
  uint64_t bytes = 0;
  std::string identity;
};

// What is there and cannot be served.
struct SkippedFiles {
  std::string name;  // as it may be shown
  std::string reason;
};

struct FolderScan {
  std::vector<ModelFiles> models;  // by name, then version, ascending
  // Models of which more may be there: the file system failed. Nothing of them is gone for that.
  std::vector<std::string> unreadable;
  std::vector<SkippedFiles> skipped;
};

// A letter or digit, then letters, digits, '.', '_' and '-'; at most 128 bytes.
bool IsModelName(absl::string_view name);
// A number from 1 on, without a zero before it; 0 for what is none.
uint64_t ModelVersion(absl::string_view text);

// NOT_FOUND if the folder cannot be read. Reads no more than 4096 entries of any folder, and 65536
// in all; that there are more is among the skipped. Blocks for the file system.
absl::StatusOr<FolderScan> ScanFolder(const std::string& folder);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_FOLDER_H_
