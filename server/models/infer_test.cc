// Requests of the open inference protocol as arguments of a program: what is bound, and what is refused.
#include "server/models/infer.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.pb.h"
#include "server/models/classify.h"

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
  const auto twice = [](auto& r) { r.add_outputs()->set_name("z"), r.add_outputs()->set_name("z"); };
  ExpectRefused(spoilt(twice), code, "z", "twice");
  ExpectRefused(spoilt([](auto& r) { (*r.mutable_parameters())["priority"].set_int64_param(1); }), v1::NOT_IMPLEMENTED,
                "parameters.priority", "priority");
  for (const char* name : {"sequence_id", "sequence_start", "sequence_end"}) {
    ExpectRefused(spoilt([&](auto& r) { (*r.mutable_parameters())[name].set_int64_param(1); }), v1::NOT_IMPLEMENTED,
                  std::string("parameters.") + name, "there are no sequences");
  }
  ExpectRefused(spoilt([](auto& r) { r.clear_raw_input_contents(); }), code, "f", "raw_input_contents");
  const auto says_15 = [](auto& r) {
    (*r.mutable_inputs(2)->mutable_parameters())["binary_data_size"].set_int64_param(15);
  };
  ExpectRefused(spoilt(says_15), code, "x", "15 bytes; 16 came");
}

TEST(ToRun, TakesWhatClientsAskWithEachRequest) {
  const auto model = TheModel();
  inference::ModelInferRequest request = Raw();
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  (*request.mutable_inputs(2)->mutable_parameters())["binary_data_size"].set_int64_param(16);
  InferRun run;
  EXPECT_TRUE(ToRun(*model, request, run).ok());
}

using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

void PutInRegion(Parameters& parameters, const std::string& region, int64_t bytes, int64_t offset = 0) {
  parameters["shared_memory_region"].set_string_param(region);
  parameters["shared_memory_byte_size"].set_int64_param(bytes);
  if (offset != 0) parameters["shared_memory_offset"].set_int64_param(offset);
}

// Raw(), with x in a region, and so without raw contents; y is to go to another.
inference::ModelInferRequest InRegions() {
  inference::ModelInferRequest request = Raw();
  request.mutable_raw_input_contents()->RemoveLast();
  PutInRegion(*request.mutable_inputs(2)->mutable_parameters(), "in", 16, 8);
  request.add_outputs()->set_name("z");
  auto& y = *request.add_outputs();
  y.set_name("y");
  PutInRegion(*y.mutable_parameters(), "out", 100);
  return request;
}

TEST(ToRun, RegionsAreNotedAndNotLookedAt) {
  const auto model = TheModel();
  inference::ModelInferRequest request = InRegions();
  PutInRegion(*request.mutable_inputs(0)->mutable_parameters(), "unread", 6);
  request.mutable_raw_input_contents()->DeleteSubrange(0, 1);
  InferRun run;
  const absl::Status status = ToRun(*model, request, run);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(run.in_regions.size(), 2u);
  EXPECT_EQ(run.in_regions[0].slice.region, "unread");
  EXPECT_FALSE(run.in_regions[0].argument.has_value());  // of f, which the program does not read
  EXPECT_EQ(run.in_regions[1].input, "x");
  EXPECT_EQ(run.in_regions[1].slice.offset, 8u);
  EXPECT_EQ(run.in_regions[1].slice.bytes, 16u);
  EXPECT_EQ(run.request.arguments[*run.in_regions[1].argument].slot, 0u);
  // k has the one that came by the message.
  EXPECT_EQ(std::get<TensorView>(run.request.arguments[0].value).data, "ab");
  EXPECT_FALSE(run.output_options[0].region.has_value());
  EXPECT_EQ(run.output_options[1].region->bytes, 100u);
}

TEST(ToRun, WhatIsWrongWithARegionIsNamed) {
  const auto spoilt = [](auto spoil) {
    inference::ModelInferRequest request = InRegions();
    spoil(*request.mutable_inputs(2)->mutable_parameters(), *request.mutable_outputs(1)->mutable_parameters(), request);
    return request;
  };
  const auto code = v1::BAD_ARGUMENT;
  ExpectRefused(spoilt([](auto& x, auto&, auto&) { x["shared_memory_byte_size"].set_int64_param(15); }), code, "x",
                "16 bytes; 15 came");
  ExpectRefused(spoilt([](auto& x, auto&, auto&) { x["shared_memory_byte_size"].set_int64_param(-1); }), code, "x",
                "shared_memory_byte_size");
  ExpectRefused(spoilt([](auto& x, auto&, auto&) { x["shared_memory_offset"].set_string_param("8"); }), code, "x",
                "shared_memory_offset");
  ExpectRefused(spoilt([](auto& x, auto&, auto&) { x.erase("shared_memory_byte_size"); }), code, "x", "comes without");
  ExpectRefused(spoilt([](auto& x, auto&, auto&) { x["shared_memory_region"].set_int64_param(3); }), code, "x",
                "is no name");
  ExpectRefused(spoilt([](auto&, auto& y, auto&) { y.erase("shared_memory_region"); }), code, "y", "comes without");
  ExpectRefused(spoilt([](auto&, auto& y, auto&) { y["classification"].set_int64_param(1); }), code, "y",
                "does not go with");
  ExpectRefused(spoilt([](auto& x, auto&, auto&) { x["classification"].set_int64_param(1); }), v1::NOT_IMPLEMENTED,
                "inputs.parameters.classification", "classification");
  ExpectRefused(spoilt([](auto&, auto&, auto& r) { r.add_raw_input_contents(std::string(16, 'x')); }), code,
                "raw_input_contents", "3 of them for 2");
  ExpectRefused(spoilt([](auto&, auto&, auto& r) { r.mutable_inputs(2)->mutable_contents()->add_fp32_contents(1); }),
                code, "x", "one of the two");
}

TEST(FillInferResponse, WhatIsInARegionIsNotInTheAnswer) {
  const auto model = TheModel();
  const inference::ModelInferRequest request = InRegions();
  InferRun run;
  ASSERT_TRUE(ToRun(*model, request, run).ok());
  ExecuteResult result;
  result.results.resize(2);
  result.results[0].data = std::string(16, 'a');
  result.results[0].shape = {2, 2};
  result.results[1].data = "b";
  result.results[1].shape = {1};
  inference::ModelInferResponse answer;
  ASSERT_TRUE(FillInferResponse(*model, request, run, result, answer).ok());
  ASSERT_EQ(answer.raw_output_contents_size(), 2);  // as many as there are outputs
  EXPECT_EQ(answer.raw_output_contents(0), "b");
  EXPECT_EQ(answer.raw_output_contents(1), "");
  EXPECT_TRUE(answer.outputs(0).parameters().empty());
  EXPECT_EQ(answer.outputs(1).parameters().at("shared_memory_region").string_param(), "out");
  EXPECT_EQ(answer.outputs(1).parameters().at("shared_memory_byte_size").int64_param(), 16);
  EXPECT_EQ(answer.outputs(1).shape_size(), 2);
}

std::vector<std::string> StringsOf(absl::string_view bytes) {
  std::vector<std::string> strings;
  while (bytes.size() >= 4) {
    const auto size = static_cast<unsigned char>(bytes[0]);
    strings.emplace_back(bytes.substr(4, size));
    bytes.remove_prefix(4 + size);
  }
  return strings;
}

template <typename T>
std::vector<std::string> Greatest(v1::DType dtype, const std::vector<T>& values, size_t rows, uint32_t count) {
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return StringsOf(GreatestOf(*DatatypeOf(dtype), bytes, rows == 0 ? std::nullopt : std::optional(rows), count)->bytes);
}

TEST(Classes, AreTheGreatestOfEachRow) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(Greatest<float>(v1::FLOAT32, {0.5f, 2, -1, 2}, 0, 3), (Strings{"2.000000:1", "2.000000:3", "0.500000:0"}));
  EXPECT_EQ(Greatest<float>(v1::FLOAT32, {1, 2, 4, 3}, 2, 1), (Strings{"2.000000:1", "4.000000:0"}));
  EXPECT_EQ(Greatest<float>(v1::FLOAT32, {NAN, -INFINITY, NAN}, 0, 9), (Strings{"-inf:1", "nan:0", "nan:2"}));
  EXPECT_EQ(Greatest<int8_t>(v1::INT8, {-128, 127, -1}, 0, 3), (Strings{"127:1", "-1:2", "-128:0"}));
  EXPECT_EQ(Greatest<int64_t>(v1::INT64, {INT64_MIN, INT64_MAX, INT64_MAX - 1}, 0, 2),
            (Strings{"9223372036854775807:1", "9223372036854775806:2"}));
  EXPECT_EQ(Greatest<uint64_t>(v1::UINT64, {1, UINT64_MAX}, 0, 1), (Strings{"18446744073709551615:1"}));
  EXPECT_EQ(Greatest<uint16_t>(v1::FLOAT16, {0x3c00, 0xc000}, 0, 2), (Strings{"1.000000:0", "-2.000000:1"}));
  EXPECT_EQ(Greatest<uint8_t>(v1::BOOL, {0, 1}, 0, 1), (Strings{"1:1"}));
  EXPECT_EQ(Greatest<float>(v1::FLOAT32, {}, 0, 3), Strings());
  EXPECT_EQ(GreatestOf(*DatatypeOf(v1::BOOL), "abcdef", 2, 9)->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(GreatestOf(*DatatypeOf(v1::BOOL), "abcdef", std::nullopt, 2)->shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(GreatestOf(*DatatypeOf(v1::BOOL), "", 0, 2)->shape, (std::vector<int64_t>{0, 0}));
}

TEST(Classes, AreNotMoreThanOneAnswerShouldHave) {
  const std::string bytes(kMaxClasses + 1, '\1');
  EXPECT_TRUE(GreatestOf(*DatatypeOf(v1::BOOL), bytes, kMaxClasses, 1).ok());
  for (const auto& [rows, count] : {std::pair<size_t, uint32_t>{1, kMaxClasses + 1}, {kMaxClasses + 1, 1}}) {
    const auto detail = DetailOf(GreatestOf(*DatatypeOf(v1::BOOL), bytes, rows, count).status());
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->code(), v1::BAD_ARGUMENT);
    EXPECT_EQ(detail->limit_value(), kMaxClasses);
    EXPECT_EQ(detail->used(), kMaxClasses + 1);
  }
}

TEST(FillInferResponse, ClassesAreOfRowsWhoseNumberACallDecides) {
  const auto model = TheModel();
  inference::ModelInferRequest request = Raw();
  for (const char* name : {"y", "z"}) {
    auto& output = *request.add_outputs();
    output.set_name(name);
    (*output.mutable_parameters())["classification"].set_int64_param(1);
  }
  InferRun run;
  ASSERT_TRUE(ToRun(*model, request, run).ok());
  ExecuteResult result;
  result.results.resize(2);
  const float y[] = {1, 2, 4, 3};
  result.results[0].data = std::string(reinterpret_cast<const char*>(y), sizeof(y));
  result.results[0].shape = {2, 2};
  result.results[1].data = std::string("\1", 1);
  result.results[1].shape = {1};
  inference::ModelInferResponse answer;
  ASSERT_TRUE(FillInferResponse(*model, request, run, result, answer).ok());
  EXPECT_EQ(answer.outputs(0).datatype(), "BYTES");
  EXPECT_EQ(answer.outputs(0).shape(0), 2);
  EXPECT_EQ(answer.outputs(0).shape(1), 1);
  EXPECT_EQ(StringsOf(answer.raw_output_contents(0)), (std::vector<std::string>{"2.000000:1", "4.000000:0"}));
  EXPECT_EQ(answer.outputs(1).shape_size(), 1);
  EXPECT_EQ(StringsOf(answer.raw_output_contents(1)), (std::vector<std::string>{"1:0"}));
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(0);
  ExpectRefused(request, v1::BAD_ARGUMENT, "y", "1 to 1024");
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
  ASSERT_TRUE(FillInferResponse(*model, request, run, result, answer).ok());
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
  counters.Succeeded(nullptr, 2, begin, absl::Nanoseconds(100), absl::Nanoseconds(10), absl::Nanoseconds(20),
                     absl::Nanoseconds(30));
  counters.Succeeded(nullptr, 0, begin, absl::Nanoseconds(100), absl::Nanoseconds(90), -absl::Nanoseconds(1),
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

TEST(Counters, RunsAreOfSoManyRequests) {
  ModelCounters counters;
  const auto ns = absl::Nanoseconds(1);
  const Account a, b;
  counters.Succeeded(&a, 2, absl::UnixEpoch(), 100 * ns, 10 * ns, 20 * ns, 30 * ns);
  counters.Succeeded(&a, 0, absl::UnixEpoch(), 100 * ns, 10 * ns, 20 * ns, 30 * ns);
  counters.Succeeded(&b, 1, absl::UnixEpoch(), 50 * ns, 0 * ns, 0 * ns, 50 * ns);
  counters.Succeeded(&b, 5000, absl::UnixEpoch(), ns, ns, ns, ns);
  const ModelCounts counts = counters.all();
  EXPECT_EQ(counts.runs, 3u);
  ASSERT_EQ(counts.batches.size(), 3u);
  const BatchCounts& two = counts.batches.at(2);
  EXPECT_EQ(two.runs, 1u);
  EXPECT_EQ(two.infer_ns, 30u);
  EXPECT_EQ(two.input_ns, 20u);
  EXPECT_EQ(two.output_ns, 40u);
  EXPECT_EQ(counts.batches.at(1).infer_ns, 50u);
  EXPECT_EQ(counts.batches.at(ModelCounts::kMostBatch).runs, 1u);
  EXPECT_EQ(counters.CountsOf(&a).batches.size(), 1u);
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
