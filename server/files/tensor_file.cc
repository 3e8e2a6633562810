#include "server/files/tensor_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/npy_header.h"
#include "base/safetensors_names.h"
#include "server/engine/memory/tensor_type.h"

namespace kiln::server {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 8 << 20;
constexpr size_t kMaxTensors = 1 << 16;

absl::Status Bad(absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("file");
  return MakeError(detail, message);
}

// A tensor whose place must be in the file's bytes from `begin` on.
absl::Status Place(const DataFile& file, uint64_t begin, StoredTensor& tensor) {
  auto bytes = TensorBytes(tensor.dtype, tensor.shape);
  if (!bytes.ok()) return Bad(absl::StrCat("\"", tensor.name, "\": ", bytes.status().message()));
  if (tensor.bytes != *bytes) {
    return Bad(absl::StrCat("\"", tensor.name, "\": ", TensorTypeName(tensor.dtype, tensor.shape), " takes ", *bytes,
                            " bytes; the file gives it ", tensor.bytes));
  }
  const uint64_t all = file.bytes() - begin;
  if (tensor.offset > all || tensor.bytes > all - tensor.offset) {
    return Bad(absl::StrCat("\"", tensor.name, "\" ends after the file does"));
  }
  tensor.offset += begin;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StoredTensor>> ListNpy(const DataFile& file, absl::string_view front) {
  auto header = ParseNpyHeader(front);
  if (!header.ok()) return Bad(header.status().message());
  StoredTensor tensor{"", header->dtype, std::move(header->shape), 0, file.bytes() - header->data_begin};
  KILN_RETURN_IF_ERROR(Place(file, header->data_begin, tensor));
  return std::vector<StoredTensor>{std::move(tensor)};
}

// Numbers of a list that are not negative; false for anything else.
template <typename Number>
bool Numbers(const json& list, std::vector<Number>& numbers) {
  if (!list.is_array()) return false;
  for (const json& number : list) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > kLargestBuffer) return false;
    numbers.push_back(static_cast<Number>(number.get<uint64_t>()));
  }
  return true;
}

absl::StatusOr<StoredTensor> ToTensor(const std::string& name, const json& row) {
  const auto wrong = [&name] {
    return Bad(absl::StrCat("\"", name, "\" is not said by a dtype, a shape and two data_offsets"));
  };
  if (!row.is_object() || !row.contains("dtype") || !row.contains("shape") || !row.contains("data_offsets") ||
      !row["dtype"].is_string()) {
    return wrong();
  }
  StoredTensor tensor;
  tensor.name = name;
  std::vector<uint64_t> ends;
  if (!Numbers(row["shape"], tensor.shape) || !Numbers(row["data_offsets"], ends)) return wrong();
  if (ends.size() != 2 || ends[0] > ends[1]) return wrong();
  tensor.offset = ends[0];
  tensor.bytes = ends[1] - ends[0];
  const auto& dtype = row["dtype"].get_ref<const std::string&>();
  const std::optional<v1::DType> known = DTypeOfSafetensors(dtype);
  if (!known.has_value()) return Bad(absl::StrCat("\"", name, "\" is of dtype ", dtype, ", which Kiln has not"));
  tensor.dtype = *known;
  return tensor;
}

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> ListTensors(const DataFile& file) {
  std::string front(std::min<uint64_t>(file.bytes(), kMaxNpyHeader + 12), '\0');
  KILN_RETURN_IF_ERROR(file.Read(0, front.size(), front.data()));
  if (absl::StartsWith(front, kNpyMagic)) return ListNpy(file, front);
  KILN_ASSIGN_OR_RETURN(NotedTensors found, ListSafetensors(file));
  return std::move(found.tensors);
}

absl::StatusOr<NotedTensors> ListSafetensors(const DataFile& file) {
  unsigned char digits[kLengthBytes];
  if (file.bytes() < kLengthBytes) return Bad("it is neither .npy nor .safetensors: it has fewer than 8 bytes");
  KILN_RETURN_IF_ERROR(file.Read(0, kLengthBytes, digits));
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | digits[i];
  if (length > file.bytes() - kLengthBytes || length > kMaxHeader) {
    return Bad(absl::StrCat("it is neither .npy nor .safetensors: a header of ", length, " bytes"));
  }
  std::string text(length, '\0');
  KILN_RETURN_IF_ERROR(file.Read(kLengthBytes, length, text.data()));
  const json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return Bad("it is neither .npy nor .safetensors: its header is no JSON object");
  if (header.size() > kMaxTensors) return Bad(absl::StrCat(header.size(), " tensors; the most is ", kMaxTensors));
  NotedTensors found;
  for (const auto& [name, row] : header.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, note] : row.items()) {
        if (row.is_object() && note.is_string()) found.metadata[key] = note.get<std::string>();
      }
      continue;
    }
    KILN_ASSIGN_OR_RETURN(StoredTensor tensor, ToTensor(name, row));
    KILN_RETURN_IF_ERROR(Place(file, kLengthBytes + length, tensor));
    found.tensors.push_back(std::move(tensor));
  }
  std::sort(found.tensors.begin(), found.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.offset, absl::string_view(a.name)) < std::pair(b.offset, absl::string_view(b.name));
  });
  return found;
}

}  // namespace kiln::server
