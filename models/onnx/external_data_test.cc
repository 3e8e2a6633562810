// Models whose tensors are in files beside them, and names that lead elsewhere.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "base/error.h"
#include "gtest/gtest.h"
#include "models/onnx/model.h"
#include "onnx/onnx.pb.h"

namespace kiln::onnx {
namespace {

// The error's code and a part of its text.
void ExpectRefused(const absl::StatusOr<Model>& model, v1::ErrorCode code, const std::string& part) {
  ASSERT_FALSE(model.ok());
  ASSERT_TRUE(DetailOf(model.status()).has_value()) << model.status();
  EXPECT_EQ(DetailOf(model.status())->code(), code) << model.status();
  EXPECT_NE(model.status().message().find(part), std::string::npos) << model.status() << " lacks " << part;
}

std::string Folder(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  EXPECT_EQ(std::system(("mkdir -p " + folder + "/model/inner").c_str()), 0);
  return folder;
}

void Write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

absl::StatusOr<Model> WithData(const std::string& folder, const std::string& location, const std::string& offset = "0",
                               const std::string& length = "120") {
  ::onnx::ModelProto model;
  model.add_opset_import()->set_version(21);
  auto* x = model.mutable_graph()->add_input();
  x->set_name("x");
  x->mutable_type()->mutable_tensor_type()->set_elem_type(::onnx::TensorProto::FLOAT);
  x->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(30);
  model.mutable_graph()->add_output()->set_name("y");
  ::onnx::TensorProto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name("w");
  tensor->set_data_type(::onnx::TensorProto::FLOAT);
  tensor->add_dims(30);
  tensor->set_data_location(::onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"location", location}, {"offset", offset}, {"length", length}}) {
    auto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  ::onnx::NodeProto* node = model.mutable_graph()->add_node();
  node->set_op_type("Mul");
  node->add_input("x");
  node->add_input("w");
  node->add_output("y");
  Write(folder + "/model/model.onnx", model.SerializeAsString());
  return ImportFile(folder + "/model/model.onnx");
}

TEST(ImportFile, ReadsDataBelowTheModelsFolderAndNowhereElse) {
  const std::string folder = Folder("external");
  Write(folder + "/model/inner/w.bin", std::string(8, '\0') + std::string(120, '\2'));
  Write(folder + "/outside.bin", std::string(200, '\3'));
  const auto made = WithData(folder, "inner/w.bin", "8");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->constants[0].value.bytes, std::string(120, '\2'));
  for (const char* location :
       {"../outside.bin", "inner/../../outside.bin", "/etc/passwd", "", "inner//w.bin", "inner/./w.bin"}) {
    ExpectRefused(WithData(folder, location), v1::BAD_ARGUMENT, "external data");
  }
  EXPECT_EQ(symlink("../outside.bin", (folder + "/model/link.bin").c_str()), 0);
  EXPECT_EQ(symlink("..", (folder + "/model/up").c_str()), 0);
  ExpectRefused(WithData(folder, "link.bin"), v1::BAD_ARGUMENT, "links are not followed");
  ExpectRefused(WithData(folder, "up/outside.bin"), v1::BAD_ARGUMENT, "links are not followed");
  ExpectRefused(WithData(folder, "inner"), v1::BAD_ARGUMENT, "no regular file");
  EXPECT_EQ(WithData(folder, "missing.bin").status().code(), absl::StatusCode::kNotFound);
}

TEST(ImportFile, RangesOfExternalDataAreInTheFile) {
  const std::string folder = Folder("ranges");
  Write(folder + "/model/w.bin", std::string(128, '\2'));
  ExpectRefused(WithData(folder, "w.bin", "9"), v1::BAD_ARGUMENT, "not in a file of 128");
  ExpectRefused(WithData(folder, "w.bin", "-1"), v1::BAD_ARGUMENT, "-1");
  ExpectRefused(WithData(folder, "w.bin", "9223372036854775807"), v1::BAD_ARGUMENT, "");
  ExpectRefused(WithData(folder, "w.bin", "many"), v1::MALFORMED_MESSAGE, "offset is no number");
  ExpectRefused(WithData(folder, "w.bin", "0", "64"), v1::MALFORMED_MESSAGE, "64 bytes, not 120");
  EXPECT_EQ(ImportFile(folder + "/nothing.onnx").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace kiln::onnx
