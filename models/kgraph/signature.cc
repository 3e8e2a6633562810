#include "models/kgraph/signature.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/dtype_names.h"
#include "base/error.h"
#include "client/cpp/size.h"

namespace kiln::kgraph {
namespace {

using client::Size;
using client::Sizes;
using nlohmann::json;

// Slots of a program, as docs/ir.md has them.
constexpr uint64_t kSlots = 65536;
// Characters of a name that are shown.
constexpr size_t kShown = 100;

absl::Status Bad(absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(kSignatureKey);
  return MakeError(std::move(detail), absl::StrCat(kSignatureKey, ": ", what));
}

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, kShown)), "\"");
}

// Numbers, and text where a size depends on variables.
json Written(const Sizes& shape) {
  json sizes = json::array();
  for (const Size& size : shape) {
    if (const std::optional<int64_t> number = size.number()) {
      sizes.push_back(*number);
    } else {
      sizes.push_back(size.Text());
    }
  }
  return sizes;
}

// One text, read into one model.
class Reader {
 public:
  Reader(const json& all, const GraphHash& hash, onnx::Model& model) : all_(all), hash_(hash), model_(model) {
    for (const v1::UOp& uop : model.graph.nodes()) {
      if (uop.op() == v1::PARAM) read_.insert(uop.buffer().slot());
    }
  }

  absl::Status Read() {
    KILN_RETURN_IF_ERROR(CheckGraph());
    KILN_RETURN_IF_ERROR(Each("sizes", /*optional=*/true, [this](const json& row) { return AddSize(row); }));
    KILN_RETURN_IF_ERROR(Each("inputs", /*optional=*/false, [this](const json& row) { return AddInput(row); }));
    return Each("outputs", /*optional=*/false, [this](const json& row) { return AddOutput(row); });
  }

 private:
  absl::Status CheckGraph() const {
    const auto said = all_.find("graph");
    if (said == all_.end()) return absl::OkStatus();
    if (!said->is_string()) return Bad("\"graph\" is no text");
    if (said->get_ref<const std::string&>() == hash_.Hex()) return absl::OkStatus();
    return Bad(absl::StrCat("it was written for another graph, not for ", hash_.Hex().substr(0, 12),
                            "…: these two files were not made together"));
  }

  template <typename Add>
  absl::Status Each(const char* list, bool optional, Add add) {
    const auto rows = all_.find(list);
    if (rows == all_.end() && optional) return absl::OkStatus();
    if (rows == all_.end() || !rows->is_array()) return Bad(absl::StrCat("it has no list of ", list));
    names_.clear();
    for (const json& row : *rows) {
      list_ = list;
      KILN_RETURN_IF_ERROR(add(row));
    }
    return absl::OkStatus();
  }

  // "inputs: \"x\" has no …".
  absl::Status Wrong(absl::string_view name, absl::string_view what) const {
    return Bad(absl::StrCat(list_, ": ", Quoted(name), " ", what));
  }

  absl::StatusOr<std::string> NameOf(const json& row) {
    if (!row.is_object() || !row.contains("name") || !row["name"].is_string())
      return Bad(absl::StrCat(list_, ": one has no name"));
    std::string name = row["name"].get<std::string>();
    if (name.empty()) return Bad(absl::StrCat(list_, ": one has an empty name"));
    if (!names_.insert(name).second) return Wrong(name, "is there twice");
    return name;
  }

  absl::StatusOr<uint32_t> SlotOf(const json& row, const std::string& name) {
    if (!row.contains("slot") || !row["slot"].is_number_unsigned() || row["slot"].get<uint64_t>() >= kSlots)
      return Wrong(name, absl::StrCat("has no slot below ", kSlots));
    const auto slot = row["slot"].get<uint32_t>();
    if (!slots_.insert(slot).second) return Wrong(name, absl::StrCat("has slot ", slot, ", which another has"));
    return slot;
  }

  absl::Status AddSize(const json& row) {
    KILN_ASSIGN_OR_RETURN(std::string name, NameOf(row));
    KILN_ASSIGN_OR_RETURN(const uint32_t slot, SlotOf(row, name));
    const auto number = [&row](const char* key) {
      const bool good = row.contains(key) && row[key].is_number_unsigned() && row[key].get<uint64_t>() <= INT32_MAX;
      return good ? row[key].get<int64_t>() : -1;
    };
    const client::SizeVariable variable{slot, name, number("min"), number("max")};
    if (variable.least < 0 || variable.greatest < variable.least)
      return Wrong(name, "has no min, and a max that is not below it");
    sizes_.emplace(std::move(name), Size(variable));
    model_.variables.push_back(variable);
    return absl::OkStatus();
  }

  absl::StatusOr<v1::DType> DTypeOf(const json& row, const std::string& name) const {
    const bool is_text = row.contains("dtype") && row["dtype"].is_string();
    const auto dtype = is_text ? ParseDType(row["dtype"].get_ref<const std::string&>()) : std::nullopt;
    if (!dtype.has_value()) return Wrong(name, "has no dtype");
    return *dtype;
  }

  absl::StatusOr<Sizes> ShapeOf(const json& row, const std::string& name, bool follows) const {
    if (!row.contains("shape") || !row["shape"].is_array()) return Wrong(name, "has no shape");
    Sizes shape;
    for (const json& size : row["shape"]) {
      if (size.is_number_unsigned() && size.get<uint64_t>() <= INT64_MAX) {
        shape.push_back(size.get<int64_t>());
        continue;
      }
      if (!size.is_string()) return Wrong(name, "has a size that is neither a number nor a name");
      const auto found = sizes_.find(size.get_ref<const std::string&>());
      if (found == sizes_.end() && !follows)
        return Wrong(name, absl::StrCat("has size ", Quoted(size.get_ref<const std::string&>()),
                                        ", which is none of the sizes"));
      shape.push_back(found == sizes_.end() ? Size::Invalid() : found->second);
    }
    return shape;
  }

  absl::Status AddInput(const json& row) {
    onnx::Model::Input input;
    KILN_ASSIGN_OR_RETURN(input.name, NameOf(row));
    KILN_ASSIGN_OR_RETURN(input.slot, SlotOf(row, input.name));
    KILN_ASSIGN_OR_RETURN(input.dtype, DTypeOf(row, input.name));
    KILN_ASSIGN_OR_RETURN(input.shape, ShapeOf(row, input.name, /*follows=*/false));
    input.used = read_.contains(input.slot);
    model_.inputs.push_back(std::move(input));
    return absl::OkStatus();
  }

  absl::Status AddOutput(const json& row) {
    onnx::Model::Output output;
    KILN_ASSIGN_OR_RETURN(output.name, NameOf(row));
    KILN_ASSIGN_OR_RETURN(output.dtype, DTypeOf(row, output.name));
    KILN_ASSIGN_OR_RETURN(output.shape, ShapeOf(row, output.name, /*follows=*/true));
    const size_t place = model_.outputs.size();
    if (row.contains("result") && row["result"] != json(place))
      return Wrong(output.name, absl::StrCat("is not result ", place, ", which has its place"));
    output.result = place;
    model_.outputs.push_back(std::move(output));
    return absl::OkStatus();
  }

  const json& all_;
  const GraphHash& hash_;
  onnx::Model& model_;
  std::set<uint32_t> read_;  // slots that the graph has
  const char* list_ = "";    // which is read
  std::set<std::string> names_;
  std::set<uint32_t> slots_;
  std::map<std::string, Size> sizes_;
};

}  // namespace

std::string WriteSignature(const onnx::Model& model) {
  json inputs = json::array(), sizes = inputs, outputs = inputs;
  for (const onnx::Model::Input& input : model.inputs) {
    inputs.push_back({{"slot", input.slot},
                      {"name", input.name},
                      {"dtype", DTypeName(input.dtype)},
                      {"shape", Written(input.shape)},
                      {"used", input.used}});
  }
  for (const client::SizeVariable& size : model.variables)
    sizes.push_back({{"slot", size.slot}, {"name", size.name}, {"min", size.least}, {"max", size.greatest}});
  for (const onnx::Model::Output& output : model.outputs) {
    json row = {{"name", output.name}, {"dtype", DTypeName(output.dtype)}, {"result", nullptr}};
    row["shape"] = Written(output.shape);
    if (output.result) row["result"] = *output.result;
    outputs.push_back(std::move(row));
  }
  json all = {{"inputs", inputs}, {"sizes", sizes}, {"outputs", outputs}};
  if (const auto hash = HashGraph(model.graph); hash.ok()) all["graph"] = hash->Hex();
  // Names are the file's, whatever bytes they have.
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::Status ReadSignature(absl::string_view text, const GraphHash& hash, onnx::Model& model) {
  const json all = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!all.is_object()) return Bad("it is no JSON object");
  return Reader(all, hash, model).Read();
}

}  // namespace kiln::kgraph
