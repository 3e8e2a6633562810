// Requests of the open inference protocol as arguments of a program: what is bound, and what is refused.
#include "server/models/infer.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.pb.h"

namespace kiln::server {
namespace {

// x of float32 [n,2], k of int8 [n], and f of float16 [3], which the program does not read; y of [-1,2] and z.
std::unique_ptr<ServedModel> TheModel() {
  auto made = std::make_unique<ServedModel>();
  ServedModel& model = *made;
  model.name = "m";
  model.version = 4;
  const size_t number = ModelDimension::kNumber;
  model.variables = {{3, "n", 1, 8, true}};
  model.inputs = {{"x", 0, DatatypeOf(v1::FLOAT32), {{0, 0}, {2, number}}, true},
                  {"k", 1, DatatypeOf(v1::INT8), {{0, 0}}, true},
                  {"f", 2, DatatypeOf(v1::FLOAT16), {{3, number}}, false}};
  model.outputs = {{"y", DatatypeOf(v1::FLOAT32), {-1, 2}}, {"z", DatatypeOf(v1::BOOL), {1}}};
  return made;
}

inference::ModelInferRequest::InferInputTensor* Add(inference::ModelInferRequest& request, const char* name,
                                                    const char* datatype, const std::vector<int64_t>& shape) {
  auto* input = request.add_inputs();
  input->set_name(name);
  input->set_datatype(datatype);
  input->mutable_shape()->Add(shape.begin(), shape.end());
  return input;
}

inference::ModelInferRequest Raw() {
  inference::ModelInferRequest request;
  request.set_id("id");
  Add(request, "f", "FP16", {3});
  Add(request, "k", "INT8", {2});
  Add(request, "x", "FP32", {2, 2});
  request.add_raw_input_contents("123456");
  request.add_raw_input_contents("ab");
  request.add_raw_input_contents(std::string(16, 'x'));
  return request;
}

void ExpectRefused(const inference::ModelInferRequest& request, v1::ErrorCode code, const std::string& field,
                   const std::string& part) {
  const auto model = TheModel();
  InferRun run;
  const absl::Status status = ToRun(*model, request, run);
  const auto detail = DetailOf(status);
  ASSERT_TRUE(detail.has_value()) << status;
  EXPECT_EQ(detail->code(), code) << status;
  EXPECT_EQ(detail->field(), field) << status;
  EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
}

TEST(ToRun, RawTensorsAreTheMessagesOwnBytes) {
  const auto model = TheModel();
  const inference::ModelInferRequest request = Raw();
  InferRun run;
  ASSERT_TRUE(ToRun(*model, request, run).ok());
  const auto& arguments = run.request.arguments;
  ASSERT_EQ(arguments.size(), 3u);  // not f
  EXPECT_EQ(arguments[0].slot, 1u);
  EXPECT_EQ(std::get<TensorView>(arguments[0].value).data.data(), request.raw_input_contents(1).data());
  EXPECT_EQ(arguments[1].slot, 0u);
  EXPECT_EQ(std::get<TensorView>(arguments[1].value).shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(arguments[2].slot, 3u);
  EXPECT_EQ(std::get<int64_t>(arguments[2].value), 2);
  EXPECT_TRUE(run.request.results_inline);
  EXPECT_EQ(run.outputs, (std::vector<size_t>{0, 1}));
}

TEST(ToRun, TypedTensorsAreNarrowedWhereTheyMustBe) {
  const auto model = TheModel();
  model->inputs.pop_back();
  inference::ModelInferRequest request;
  auto* x = Add(request, "x", "FP32", {1, 2});
  x->mutable_contents()->add_fp32_contents(1.5f);
  x->mutable_contents()->add_fp32_contents(-2.0f);
  Add(request, "k", "INT8", {1})->mutable_contents()->add_int_contents(-128);
  InferRun run;
  ASSERT_TRUE(ToRun(*model, request, run).ok());
  const auto bytes = [&](int argument) { return std::get<TensorView>(run.request.arguments[argument].value).data; };
  EXPECT_EQ(reinterpret_cast<const float*>(bytes(0).data())[0], 1.5f);
  EXPECT_EQ(bytes(0).data(), reinterpret_cast<const char*>(x->contents().fp32_contents().data()));
  EXPECT_EQ(bytes(1), "\x80");
}

TEST(ToRun, WhatIsWrongIsNamed) {
  const auto spoilt = [](auto spoil) {
    inference::ModelInferRequest request = Raw();
    spoil(request);
    return request;
  };
  const auto code = v1::BAD_ARGUMENT;
  ExpectRefused(spoilt([](auto& r) { r.mutable_inputs(2)->set_datatype("FP64"); }), code, "x", "takes FP32");
  ExpectRefused(spoilt([](auto& r) { r.mutable_inputs(2)->set_shape(1, 3); }), code, "x", "[n,2]");
  ExpectRefused(spoilt([](auto& r) { r.mutable_inputs(2)->add_shape(1); }), code, "x", "[2,2,1]");
  ExpectRefused(spoilt([](auto& r) { r.mutable_inputs(2)->set_shape(0, 9); }), code, "x", "from 1 to 8");
  ExpectRefused(spoilt([](auto& r) { r.mutable_inputs(2)->set_shape(0, -1); }), code, "x", "from 1 to 8");
  ExpectRefused(spoilt([](auto& r) { r.mutable_inputs(2)->set_shape(0, 3); }), code, "x", "n is 2 by input \"k\"");
  ExpectRefused(spoilt([](auto& r) { r.mutable_raw_input_contents(2)->pop_back(); }), code, "x", "16 bytes; 15 came");
  ExpectRefused(spoilt([](auto& r) { r.mutable_inputs(0)->set_name("q"); }), code, "q", "none of the model's");
  ExpectRefused(spoilt([](auto& r) { r.mutable_inputs(0)->set_name("k"); }), code, "k", "FP16");
  ExpectRefused(spoilt([](auto& r) {
                  *r.mutable_inputs(0) = r.inputs(1);
                  *r.mutable_raw_input_contents(0) = "ab";
                }),
                code, "k", "comes twice");
  ExpectRefused(spoilt([](auto& r) { r.mutable_inputs()->RemoveLast(); }), code, "raw_input_contents",
                "3 of them for 2");
  ExpectRefused(spoilt([](auto& r) {
                  r.mutable_inputs()->RemoveLast();
                  r.mutable_raw_input_contents()->RemoveLast();
                }),
                code, "x", "missing");
  ExpectRefused(spoilt([](auto& r) { r.mutable_inputs(1)->mutable_contents()->add_int_contents(1); }), code, "k",
                "one of the two");
  ExpectRefused(spoilt([](auto& r) { r.add_outputs()->set_name("w"); }), code, "w", "none of the model's");
  ExpectRefused(spoilt([](auto& r) {
                  r.add_outputs()->set_name("z");
                  r.add_outputs()->set_name("z");
                }),
                code, "z", "twice");
  ExpectRefused(spoilt([](auto& r) { (*r.mutable_parameters())["priority"].set_int64_param(1); }), v1::NOT_IMPLEMENTED,
                "parameters.priority", "priority");
  ExpectRefused(spoilt([](auto& r) { r.clear_raw_input_contents(); }), code, "f", "raw_input_contents");
}

TEST(ToRun, TakesWhatTritonsClientsAskWithEachRequest) {
  const auto model = TheModel();
  inference::ModelInferRequest request = Raw();
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  InferRun run;
  EXPECT_TRUE(ToRun(*model, request, run).ok());
}

TEST(FillInferResponse, MovesTheResultsThatAreWanted) {
  const auto model = TheModel();
  inference::ModelInferRequest request = Raw();
  request.add_outputs()->set_name("z");
  InferRun run;
  ASSERT_TRUE(ToRun(*model, request, run).ok());
  ExecuteResult result;
  result.results.resize(2);
  result.results[1].data = std::string(100, 'b');
  result.results[1].shape = {100};
  const char* const bytes = result.results[1].data.data();
  inference::ModelInferResponse answer;
  FillInferResponse(*model, request, run, result, answer);
  EXPECT_EQ(answer.id(), "id");
  EXPECT_EQ(answer.model_version(), "4");
  ASSERT_EQ(answer.outputs_size(), 1);
  EXPECT_EQ(answer.outputs(0).name(), "z");
  EXPECT_EQ(answer.outputs(0).datatype(), "BOOL");
  EXPECT_EQ(answer.outputs(0).shape(0), 100);
  EXPECT_EQ(answer.raw_output_contents(0).data(), bytes);
}

TEST(Datatypes, HaveNamesOfTheProtocol) {
  EXPECT_EQ(DatatypeOf(v1::BFLOAT16)->name, "BF16");
  EXPECT_EQ(DatatypeOf(v1::UINT64)->in_config, inference::TYPE_UINT64);
  EXPECT_EQ(DatatypeOf(v1::FLOAT8_E4M3), nullptr);
}

TEST(Counters, PartsAddUpToTheWhole) {
  ModelCounters counters;
  const absl::Time begin = absl::FromUnixMillis(77);
  counters.Succeeded(nullptr, true, begin, absl::Nanoseconds(100), absl::Nanoseconds(10), absl::Nanoseconds(20),
                     absl::Nanoseconds(30));
  counters.Succeeded(nullptr, false, begin, absl::Nanoseconds(100), absl::Nanoseconds(90), -absl::Nanoseconds(1),
                     absl::Nanoseconds(30));
  counters.Failed(nullptr, begin, absl::Nanoseconds(5));
  const ModelCounts counts = counters.all();
  EXPECT_EQ(counts.succeeded, 2u);
  EXPECT_EQ(counts.success_ns, 200u);
  EXPECT_EQ(counts.infer_ns, 60u);
  EXPECT_EQ(counts.queue_ns, 80u);
  EXPECT_EQ(counts.input_ns, 20u);
  EXPECT_EQ(counts.output_ns, 40u);
  EXPECT_EQ(counts.fail_ns, 5u);
  EXPECT_EQ(counts.last_ms, 77);
}

TEST(Counters, AreOfEachByItself) {
  ModelCounters counters;
  const Account a, b, other;
  counters.Failed(&a, absl::FromUnixMillis(5), absl::Nanoseconds(7));
  counters.Failed(&b, absl::FromUnixMillis(4), absl::Nanoseconds(11));
  EXPECT_EQ(counters.CountsOf(&a).fail_ns, 7u);
  EXPECT_EQ(counters.CountsOf(&b).failed, 1u);
  EXPECT_EQ(counters.CountsOf(&other).failed, 0u);
  EXPECT_EQ(counters.all().fail_ns, 18u);
  EXPECT_EQ(counters.all().last_ms, 5);
}

}  // namespace
}  // namespace kiln::server
