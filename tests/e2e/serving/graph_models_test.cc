// Models that are graphs already: served as the ONNX they were made of, sharing its weights; and each way in which
// their two files can be wrong, refused by the file's name and the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/notification.h"
#include "client/cpp/arrays/safetensors.h"
#include "client/cpp/elementwise.h"
#include "client/cpp/graph.h"
#include "inference/grpc_service.pb.h"
#include "models/kgraph/signature.h"
#include "models/onnx/model.h"
#include "server/engine/engine.h"
#include "server/models/infer.h"
#include "server/models/repository.h"
#include "tests/e2e/server_fixture.h"
#include "tests/e2e/serving/models_folder.h"

namespace kiln::e2e {
namespace {

using nlohmann::json;
using server::ModelRepository;
using testing::HasSubstr;

// What is in a version's two files, before it is written.
struct Files {
  v1::Graph graph;
  std::map<std::string, client::HostTensor> constants;
  json signature;
  std::string bytes;   // of model.kgraph, in place of the graph
  std::string header;  // of model.safetensors, in place of all that is in it
};

Files FilesOf(const onnx::Model& model) {
  Files files;
  files.graph = model.graph;
  for (const onnx::Model::Constant& constant : model.constants)
    files.constants[absl::StrCat(constant.slot, "_", constant.name)] = constant.value;
  files.signature = json::parse(kgraph::WriteSignature(model));
  return files;
}

// Of y = x + k, x [n, kElements] in slot 0, n in 1 and k in 2.
onnx::Model Imported(float addend) {
  onnx::ImportOptions options;
  options.any_dimension = {1, 4};
  return *onnx::Import(Adds(addend), options);
}

class GraphModelsTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    ModelRepository::Options options;
    options.folder = folder_.path();
    options.load.sizes.others = {1, 4};
    options.load.max_bytes = 1 << 20;
    options.versions = *server::ParseVersionPolicy("all");
    options.max_models = 100;
    const auto log = std::make_shared<spdlog::logger>("models", std::make_shared<spdlog::sinks::null_sink_mt>());
    models_ = std::make_unique<ModelRepository>(options, &server_->engine(), log);
  }
  void TearDown() override {
    models_.reset();
    std::filesystem::remove_all(folder_.path());
  }

  std::string Path(const std::string& name, int version, const char* file) {
    return absl::StrCat(folder_.path(), "/", name, "/", version, "/", file);
  }
  void Put(const std::string& name, const Files& files, int version = 1) {
    std::filesystem::create_directories(absl::StrCat(folder_.path(), "/", name, "/", version));
    std::ofstream(Path(name, version, server::kGraphFile), std::ios::binary)
        << (files.bytes.empty() ? files.graph.SerializeAsString() : files.bytes);
    const std::string path = Path(name, version, server::kConstantsFile);
    if (!files.header.empty()) {
      std::string length;
      for (int byte = 0; byte < 8; ++byte)
        length.push_back(static_cast<char>(files.header.size() >> (8 * byte) & 0xff));
      std::ofstream(path, std::ios::binary) << length << files.header << "abcd";
      return;
    }
    std::map<std::string, const client::HostTensor*> tensors;
    for (const auto& [key, value] : files.constants) tensors[key] = &value;
    std::map<std::string, std::string> notes;
    if (!files.signature.is_null()) notes[kgraph::kSignatureKey] = files.signature.dump();
    ASSERT_TRUE(client::WriteSafetensors(path, tensors, notes).ok());
  }

  // Why a model is not served, without what escapes it; "" if it is.
  std::string Reason(const std::string& name) {
    for (const ModelRepository::Row& row : models_->Index()) {
      if (row.name != name) continue;
      if (row.state == ModelRepository::Row::State::kReady) return "";
      return absl::StrReplaceAll(row.reason, {{"\\\"", "\""}, {"\\'", "'"}});
    }
    return "it is not there";
  }
  uint64_t InMemory() { return server_->engine().accounts().Of(ModelRepository::kOwner)->used(Quota::kDeviceBytes); }

  // Of rows that are all `x`.
  std::vector<std::string> Ask(const server::ServedModel& model, float x, int64_t rows) {
    inference::ModelInferRequest message;
    auto* input = message.add_inputs();
    input->set_name("x");
    input->set_datatype("FP32");
    input->add_shape(rows);
    input->add_shape(kElements);
    message.add_raw_input_contents(BytesOf(std::vector<float>(rows * kElements, x)));
    server::InferRun run;
    const absl::Status bound = ToRun(model, message, run);
    EXPECT_TRUE(bound.ok()) << bound;
    std::vector<std::string> results;
    absl::Notification done;
    server_->engine().Execute(std::move(run.request), {}, [&](absl::StatusOr<server::ExecuteResult> result) {
      EXPECT_TRUE(result.ok()) << result.status();
      if (result.ok()) {
        for (const auto& each : result->results) results.push_back(each.data);
      }
      done.Notify();
    });
    done.WaitForNotification();
    return results;
  }

  FolderOfModels folder_;
  std::unique_ptr<ModelRepository> models_;  // goes before the server
};

TEST_F(GraphModelsTest, AreServedAsTheOnnxTheyWereMadeOf) {
  folder_.Put("onnx", 1, Adds(0.1f));
  Put("graph", FilesOf(Imported(0.1f)));
  Put("graph", FilesOf(Imported(3)), 2);
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Reason("graph"), "");
  EXPECT_EQ(models_->constants(), 2u);  // one is shared with the ONNX
  EXPECT_EQ(InMemory(), 2 * kBytes);
  const server::ServedModelPtr of_onnx = *models_->Find("onnx", ""), of_graph = *models_->Find("graph", "1");
  EXPECT_EQ(of_graph->weights[0].memory, of_onnx->weights[0].memory);
  EXPECT_EQ(of_graph->program, of_onnx->program);
  ASSERT_EQ(of_graph->outputs.size(), 1u);
  EXPECT_EQ(of_graph->outputs[0].name, "y");
  EXPECT_EQ(of_graph->outputs[0].shape, (std::vector<int64_t>{-1, kElements}));
  ASSERT_EQ(of_graph->variables.size(), 1u);
  EXPECT_EQ(of_graph->variables[0].name, "n");
  EXPECT_EQ(of_graph->variables[0].greatest, 4);
  for (const int64_t rows : {1, 3}) {
    const std::vector<std::string> answer = Ask(*of_graph, 0.7f, rows);
    EXPECT_EQ(answer, Ask(*of_onnx, 0.7f, rows));
    EXPECT_EQ(FloatsOf(answer[0]), std::vector<float>(rows * kElements, 0.7f + 0.1f));
  }
  EXPECT_EQ(FloatsOf(Ask(**models_->Find("graph", ""), 1, 1)[0]), std::vector<float>(kElements, 4));

  Files bad = FilesOf(Imported(5));
  bad.signature = nullptr;
  Put("graph", bad, 2);  // what served before serves on
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(FloatsOf(Ask(**models_->Find("graph", ""), 1, 1)[0]), std::vector<float>(kElements, 4));
  Put("graph", FilesOf(Imported(5)), 2);
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(FloatsOf(Ask(**models_->Find("graph", ""), 1, 1)[0]), std::vector<float>(kElements, 6));
}

TEST_F(GraphModelsTest, SequencesAreServedWhereTheGraphHasNoFunctions) {
  // y = x + s, which is the next s, too.
  client::Graph graph;
  onnx::Model model;
  const client::Size n = graph.Variable(2, 1, 4, "n");
  const client::Tensor y = graph.Param(0, v1::FLOAT32, {n, 2}, "x") + graph.Param(1, v1::FLOAT32, {n, 2}, "s");
  graph.Output(y);
  graph.Output(y);
  model.graph = *graph.Build();
  model.inputs = {{"x", 0, v1::FLOAT32, {n, 2}}, {"s", 1, v1::FLOAT32, {n, 2}}};
  model.variables = {{2, "n", 1, 4}};
  model.outputs = {{"y", v1::FLOAT32, {n, 2}, std::nullopt, 0, 0}, {"next", v1::FLOAT32, {n, 2}, std::nullopt, 0, 1}};
  const std::string config = R"(sequence_batching { state { input_name: "s" output_name: "next" } })";
  for (const char* name : {"good", "functions", "other_size"}) {
    std::filesystem::create_directories(absl::StrCat(folder_.path(), "/", name));
    std::ofstream(absl::StrCat(folder_.path(), "/", name, "/config.pbtxt")) << config;
  }
  Put("good", FilesOf(model));
  // The same, whose sum is a function's.
  Files functions = FilesOf(model);
  const auto add = [&](v1::Op op, std::vector<uint32_t> sources) {
    v1::UOp& uop = *functions.graph.add_nodes();
    uop.set_op(op);
    uop.mutable_src()->Add(sources.begin(), sources.end());
    return static_cast<uint32_t>(functions.graph.nodes_size() - 1);
  };
  functions.graph.mutable_nodes()->RemoveLast();
  std::vector<uint32_t> params(2);
  uint32_t sum = 0;
  for (int node = 0; node < functions.graph.nodes_size(); ++node) {
    const v1::UOp& uop = functions.graph.nodes(node);
    if (uop.op() == v1::PARAM && uop.buffer().slot() < 2) params[uop.buffer().slot()] = static_cast<uint32_t>(node);
    if (uop.op() == v1::ADD) sum = static_cast<uint32_t>(node);
  }
  const uint32_t called = add(v1::FUNCTION, {add(v1::TUPLE, {sum}), params[0], params[1]});
  const uint32_t result = add(v1::GETTUPLE, {called});
  functions.graph.mutable_nodes(static_cast<int>(result))->set_index(0);
  add(v1::TUPLE, {result, result});
  functions.signature.erase("graph");
  Put("functions", functions);
  // The size that all begin with is another slot's than the graph has.
  Files other = FilesOf(model);
  other.signature["sizes"][0]["slot"] = 7;
  Put("other_size", other);
  ASSERT_TRUE(models_->Poll().ok());
  EXPECT_EQ(Reason("good"), "");
  EXPECT_TRUE((*models_->Find("good", ""))->sequences.has_value());
  EXPECT_THAT(Reason("functions"), HasSubstr("the model's graph has functions"));
  EXPECT_THAT(Reason("other_size"), HasSubstr("model.safetensors: the graph's size \"n\" in slot 2"));
}

TEST_F(GraphModelsTest, EachThatIsWrongIsRefusedByItsFileAndTheReason) {
  const struct {
    const char* name;
    std::function<void(Files&)> spoil;
    const char* why;
  } cases[] = {
      {"truncated", [](Files& f) { f.bytes = f.graph.SerializeAsString().substr(0, 60); },
       "model.kgraph: no serialized kiln.v1.Graph"},
      {"noise", [](Files& f) { f.bytes = std::string(300, '\x7f'); }, "model.kgraph: no serialized kiln.v1.Graph"},
      {"many_nodes",  // and cut short: whoever parsed it first would say that
       [](Files& f) {
         for (int i = 0; i < 200'001; ++i) f.bytes += std::string("\x0a\x00", 2);
         f.bytes += '\x0a';
       },
       "model.kgraph: has more than 200000 nodes"},
      {"empty", [](Files& f) { f.graph.clear_nodes(); }, "model.kgraph: its root is no TUPLE"},
      {"no_root", [](Files& f) { f.graph.mutable_nodes()->RemoveLast(); }, "model.kgraph: its root is no TUPLE"},
      {"cycle", [](Files& f) { f.graph.mutable_nodes(0)->add_src(1); }, "model.kgraph: "},
      {"does_not_verify",
       [](Files& f) {
         f.signature.erase("graph");
         for (v1::UOp& uop : *f.graph.mutable_nodes()) {
           if (uop.op() == v1::ADD) uop.mutable_src()->RemoveLast();
         }
       },
       "model.kgraph: "},
      {"code",
       [](Files& f) {
         f.signature.erase("graph");
         f.graph.mutable_nodes(0)->set_op(v1::CUSTOM);
         f.graph.mutable_nodes(0)->set_text("asm(\"\")");
       },
       "model.kgraph: node 0 (CUSTOM) carries code"},
      {"elsewhere",
       [](Files& f) {
         f.signature.erase("graph");
         for (v1::UOp& uop : *f.graph.mutable_nodes()) {
           if (uop.op() == v1::PARAM && uop.buffer().slot() == 0) uop.mutable_buffer()->add_device("CPU:0");
         }
       },
       "names a device"},
      {"unsigned", [](Files& f) { f.signature = nullptr; }, "model.safetensors: has no signature"},
      {"other_graph", [](Files& f) { f.signature["graph"] = std::string(64, '0'); },
       "model.safetensors: kiln.signature: it was written for another graph"},
      {"no_text", [](Files& f) { f.signature = "x"; }, "model.safetensors: kiln.signature: it is no JSON object"},
      {"no_header", [](Files& f) { f.header = "["; }, "model.safetensors: it is neither .npy nor .safetensors"},
      {"long_header", [](Files& f) { f.header = std::string(2 << 20, ' '); }, "model_limits.max_bytes"},
      {"no_slot",
       [](Files& f) {
         f.constants["k"] = f.constants["2_k"];
         f.constants.erase("2_k");
       },
       "model.safetensors: \"k\" begins with no slot"},
      {"twice", [](Files& f) { f.constants["2_l"] = f.constants["2_k"]; },
       "model.safetensors: \"2_l\": slot 2 is there twice"},
      {"inputs_slot", [](Files& f) { f.constants["0_k"] = f.constants["2_k"]; },
       "model.safetensors: \"0_k\": slot 0 is there twice"},
      {"shared_bytes",
       [](Files& f) {
         const json header = {{"__metadata__", {{kgraph::kSignatureKey, f.signature.dump()}}},
                              {"2_k", {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {0, 4}}}},
                              {"9_l", {{"dtype", "U8"}, {"shape", {2}}, {"data_offsets", {2, 4}}}}};
         f.header = header.dump();
       },
       "model.safetensors: \"9_l\" has bytes that are another's, too"},
      {"writes",
       [](Files& f) {
         client::Graph graph;
         const client::Tensor k = graph.Param(2, v1::FLOAT32, {kElements}, "k");
         graph.Output(graph.Assign(k, k + k));
         f.graph = *graph.Build();
         f.signature.erase("graph");
       },
       "model.kgraph: it writes to \"2_k\""},
      {"wrong_bytes",
       [](Files& f) { f.header = R"({"2_k": {"dtype": "F32", "shape": [4096], "data_offsets": [0, 4]}})"; },
       "model.safetensors: \"2_k\": float32 [4096] takes 16384 bytes; the file gives it 4"},
      {"beyond", [](Files& f) { f.header = R"({"2_k": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})"; },
       "model.safetensors: \"2_k\" ends after the file does"},
      {"no_constant", [](Files& f) { f.constants.clear(); },
       "model.kgraph: it reads slot 2, which is neither an input nor a constant"},
      {"constants_dtype", [](Files& f) { f.constants["2_k"].dtype = v1::INT32; },
       "model.safetensors: constant \"2_k\" is int32 (4096,); the graph reads float32 [4096]"},
      {"constants_shape", [](Files& f) { f.constants["2_k"].shape = {2, 2048}; },
       "model.safetensors: constant \"2_k\" is float32 (2, 2048); the graph reads float32 [4096]"},
      {"inputs_dtype", [](Files& f) { f.signature["inputs"][0]["dtype"] = "int32"; },
       "model.safetensors: input \"x\" is int32 (n, 4096); the graph reads at most float32 [4, 4096]"},
      {"inputs_shape", [](Files& f) { f.signature["inputs"][0]["shape"] = {4, 4096}; },
       "model.safetensors: the graph's size \"n\" in slot 1 is in no input's shape"},
      {"inputs_rank", [](Files& f) { f.signature["inputs"][0]["shape"] = {"n"}; }, "model.safetensors: input \"x\""},
      {"other_range", [](Files& f) { f.signature["sizes"][0]["max"] = 5; },
       "model.safetensors: size \"n\" is 1 to 5; the graph's is 1 to 4"},
      {"no_output", [](Files& f) { f.signature["outputs"].clear(); },
       "model.safetensors: there are 0 outputs; the graph has 1"},
      {"outputs_dtype", [](Files& f) { f.signature["outputs"][0]["dtype"] = "float16"; },
       "model.safetensors: output \"y\" is not as the signature says; the graph's is at most float32 [4, 4096]"},
      {"outputs_number", [](Files& f) { f.signature["outputs"][0]["shape"] = {4, 4096}; },
       "model.safetensors: output \"y\" is not as the signature says"},
      {"no_name", [](Files& f) { f.signature["inputs"][0]["name"] = "\x01"; },
       "model.safetensors: \"\\\\x01\" is an input's name that is not printable"},
  };
  folder_.Put("good", 1, Adds(1));
  for (const auto& row : cases) {
    Files files = FilesOf(Imported(1));
    row.spoil(files);
    Put(row.name, files);
  }
  ASSERT_TRUE(models_->Poll().ok());
  for (const auto& row : cases) {
    EXPECT_THAT(Reason(row.name), HasSubstr(row.why)) << row.name;
  }
  EXPECT_EQ(Reason("good"), "");
  EXPECT_EQ(InMemory(), kBytes);  // nothing of the others
  EXPECT_EQ(FloatsOf(Ask(**models_->Find("good", ""), 1, 1)[0]), std::vector<float>(kElements, 2));
}

}  // namespace
}  // namespace kiln::e2e
