#include "client/cpp/arrays/safetensors.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/dtype_names.h"
#include "base/safetensors_names.h"

namespace kiln::client {
namespace {

// Where the first tensor begins is a multiple of this.
constexpr size_t kAlignment = 64;

}  // namespace

absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, const HostTensor*>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  size_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    const absl::string_view dtype = SafetensorsName(tensor->dtype);
    if (dtype.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": .safetensors has no ", DTypeName(tensor->dtype), ", which \"", name, "\" is of"));
    }
    const size_t begin = end;
    end += tensor->bytes.size();
    header[name] = {{"dtype", std::string(dtype)}, {"shape", tensor->shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append(kAlignment - 1 - (8 + text.size() + kAlignment - 1) % kAlignment, ' ');
  std::string length;
  for (int byte = 0; byte < 8; ++byte) length.push_back(static_cast<char>(text.size() >> (8 * byte) & 0xff));
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << length << text;
  for (const auto& [name, tensor] : tensors) stream << tensor->bytes;
  stream.close();
  if (stream) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace kiln::client
