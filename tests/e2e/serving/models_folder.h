// A folder of small models, for tests of served ones.
#ifndef KILN_TESTS_E2E_SERVING_MODELS_FOLDER_H_
#define KILN_TESTS_E2E_SERVING_MODELS_FOLDER_H_

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx/onnx.pb.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {

inline constexpr int kElements = 4096;
inline constexpr uint64_t kBytes = kElements * sizeof(float);

inline void AddTensor(::onnx::ValueInfoProto* tensor, const char* name) {
  tensor->set_name(name);
  auto* type = tensor->mutable_type()->mutable_tensor_type();
  type->set_elem_type(::onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_param("n");
  type->mutable_shape()->add_dim()->set_dim_value(kElements);
}

// y = x + k for float32 [n, kElements], k all `addend`.
inline std::string Adds(float addend) {
  ::onnx::ModelProto model;
  model.add_opset_import()->set_version(17);
  ::onnx::GraphProto& graph = *model.mutable_graph();
  AddTensor(graph.add_input(), "x");
  AddTensor(graph.add_output(), "y");
  auto* constant = graph.add_initializer();
  constant->set_name("k");
  constant->set_data_type(::onnx::TensorProto::FLOAT);
  constant->add_dims(kElements);
  constant->set_raw_data(BytesOf(std::vector<float>(kElements, addend)));
  auto* node = graph.add_node();
  node->set_op_type("Add");
  node->add_input("x");
  node->add_input("k");
  node->add_output("y");
  return model.SerializeAsString();
}

// The same, whose second output is its constant itself.
inline std::string AddsAndTells(float addend) {
  ::onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(Adds(addend)));
  auto* output = model.mutable_graph()->add_output();
  AddTensor(output, "k");
  output->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()->DeleteSubrange(0, 1);
  return model.SerializeAsString();
}

class FolderOfModels {
 public:
  FolderOfModels() {
    path_ = testing::TempDir() + "/models-XXXXXX";
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  const std::string& path() const { return path_; }

  void Put(const std::string& name, int version, const std::string& bytes) {
    mkdir(absl::StrCat(path_, "/", name).c_str(), 0700);
    const std::string folder = absl::StrCat(path_, "/", name, "/", version);
    mkdir(folder.c_str(), 0700);
    std::ofstream(folder + "/draft", std::ios::binary) << bytes;
    ASSERT_EQ(std::rename((folder + "/draft").c_str(), (folder + "/model.onnx").c_str()), 0);
  }
  void Remove(const std::string& name, int version) {
    ASSERT_EQ(std::remove(absl::StrCat(path_, "/", name, "/", version, "/model.onnx").c_str()), 0);
  }

 private:
  std::string path_;
};

}  // namespace kiln::e2e

#endif  // KILN_TESTS_E2E_SERVING_MODELS_FOLDER_H_
