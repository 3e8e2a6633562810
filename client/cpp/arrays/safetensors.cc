#include "client/cpp/arrays/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/dtype_names.h"
#include "base/error.h"
#include "base/safetensors_names.h"

namespace kiln::client {
namespace {

// Where the first tensor begins is a multiple of this.
constexpr size_t kAlignment = 64;

// What claims a longer header is no such file.
constexpr uint64_t kMaxHeaderBytes = 100 << 20;

absl::Status Unlike(absl::string_view what) { return MakeError(v1::BAD_ARGUMENT, what); }

uint64_t LengthAt(absl::string_view file) {
  uint64_t length = 0;
  for (size_t byte = 0; byte < 8; ++byte) length |= uint64_t{static_cast<uint8_t>(file[byte])} << (8 * byte);
  return length;
}

// {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
absl::StatusOr<HostTensor> TensorOf(const nlohmann::json& row, absl::string_view data) {
  const auto numbers = [&row](const char* name) {
    const auto found = row.find(name);
    const bool good =
        found != row.end() && found->is_array() &&
        std::all_of(found->begin(), found->end(), [](const auto& one) { return one.is_number_unsigned(); });
    return good ? std::optional(found->get<std::vector<uint64_t>>()) : std::nullopt;
  };
  if (!row.is_object() || !row.contains("dtype") || !row["dtype"].is_string()) return Unlike("has no dtype");
  const auto dtype = DTypeOfSafetensors(row["dtype"].get<std::string>());
  if (!dtype.has_value())
    return Unlike(absl::StrCat("is of ", row["dtype"].get<std::string>(), ", which no tensor is"));
  const auto shape = numbers("shape"), offsets = numbers("data_offsets");
  if (!shape.has_value() || !offsets.has_value() || offsets->size() != 2) return Unlike("has no shape, or no place");
  const uint64_t begin = (*offsets)[0], end = (*offsets)[1];
  if (begin > end || end > data.size()) {
    return Unlike(absl::StrCat("is bytes ", begin, " to ", end, " of ", data.size()));
  }
  HostTensor tensor{*dtype, Shape(shape->begin(), shape->end()), std::string(data.substr(begin, end - begin))};
  if (ByteCount(tensor.dtype, tensor.shape) != static_cast<int64_t>(end - begin)) {
    return Unlike(absl::StrCat("is ", end - begin, " bytes, and not a ", TypeText(tensor.dtype, tensor.shape)));
  }
  return tensor;
}

absl::StatusOr<std::map<uint32_t, HostTensor>> ConstantsOf(absl::string_view file) {
  if (file.size() < 8) return Unlike("it is too short for a .safetensors");
  const uint64_t length = LengthAt(file);
  const absl::string_view rest = file.substr(8);
  if (length > kMaxHeaderBytes || length > rest.size())
    return Unlike(absl::StrCat("it has no header of ", length, " bytes"));
  const absl::string_view text = rest.substr(0, length);
  const nlohmann::json header = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return Unlike("its header is no JSON object");
  std::map<uint32_t, HostTensor> constants;
  for (const auto& [name, row] : header.items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<HostTensor> tensor = TensorOf(row, rest.substr(length));
    if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("\"", name, "\""));
    uint32_t slot = 0;
    if (!absl::SimpleAtoi(name.substr(0, name.find('_')), &slot)) {
      return Unlike(absl::StrCat("\"", name, "\" begins with no slot, as \"3_weight\" does"));
    }
    if (!constants.emplace(slot, *std::move(tensor)).second)
      return Unlike(absl::StrCat("slot ", slot, " is there twice"));
  }
  return constants;
}

}  // namespace

absl::StatusOr<std::map<uint32_t, HostTensor>> ReadConstants(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  const std::string file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  auto constants = ConstantsOf(file);
  if (!constants.ok()) return Annotate(constants.status(), path);
  return constants;
}

absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, const HostTensor*>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
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
