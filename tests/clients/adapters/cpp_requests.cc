// What the adapter is asked, by name (tests/clients/README.md).
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "client/cpp/arrays/safetensors.h"
#include "client/cpp/files/graph_file.h"
#include "tests/clients/adapters/cpp_adapter.h"

namespace kiln::adapter {
namespace {

using client::Arguments;
using client::ClientOptions;
using client::RunResults;

ClientOptions OptionsOf(const Json& ask) {
  ClientOptions options;
  options.connect_timeout = absl::Milliseconds(ask.value("timeout_ms", 30000));
  options.shared_memory = false;
  options.lease = absl::Seconds(ask.value("lease_seconds", 30));
  options.credentials = {Text(ask, "ca"), Text(ask, "certificate"), Text(ask, "key"), Text(ask, "token"),
                         Text(ask, "token_file")};
  return options;
}

}  // namespace

absl::Status Nothing(absl::string_view what, const Json& name) {
  return absl::InternalError(absl::StrCat("the adapter has no ", what, " ", name.dump()));
}

absl::StatusOr<std::shared_ptr<Stream>> Connected::stream() {
  if (!streams) return nullptr;
  absl::MutexLock lock(&mutex);
  if (opened != nullptr && opened->status().ok()) return opened;
  opened = nullptr;  // which ends what has ended, and leaves its numbers to the next
  KILN_ASSIGN_OR_RETURN(opened, client->OpenStream());
  return opened;
}

Json Adapter::Do(const Json& ask) {
  Answer answer = Request(ask);
  return answer.ok() ? *std::move(answer) : Json{{"error", Told(answer.status())}};
}

Answer Adapter::Request(const Json& ask) {
  static const auto* const requests = new std::map<std::string, Answer (Adapter::*)(const Json&)>{
      {"connect", &Adapter::Connect},
      {"close", &Adapter::Close},
      {"compile", &Adapter::Compile},
      {"gradient", &Adapter::Gradient},
      {"upload", &Adapter::Upload},
      {"allocate", &Adapter::Allocate},
      {"write", &Adapter::Write},
      {"read", &Adapter::Read},
      {"free", &Adapter::Free},
      {"describe", &Adapter::Describe},
      {"run", &Adapter::Run},
      {"unchecked_run", &Adapter::UncheckedRun},
      {"run_files", &Adapter::RunFiles},
      {"begin", &Adapter::Begin},
      {"end", &Adapter::End},
      {"fence", &Adapter::Fence},
      {"record", &Adapter::Record},
      {"replay", &Adapter::Replay},
      {"collective", &Adapter::Collective},
      {"transfer", &Adapter::Transfer},
      {"bench", &Adapter::Bench},
      {"models", &Adapter::Models},
      {"model", &Adapter::Model},
      {"infer", &Adapter::Infer},
      {"infer_stream", &Adapter::InferStream},
  };
  const std::string what = Text(ask, "do");
  if (what == "reset") return Reset();
  if (what == "build") return Build(ask);
  if (what == "hash") {
    KILN_ASSIGN_OR_RETURN(const GraphHash hash, HashGraph(GraphOf(ask)));
    return Json{{"hash", hash.Hex()}};
  }
  if (what == "handle") {
    KILN_ASSIGN_OR_RETURN(const auto buffer, BufferOf(ask["buffer"]));
    return Json{{"handle", absl::StrCat(buffer->Ref().handle())}};
  }
  const auto found = requests->find(what);
  return found == requests->end() ? Answer(Json{{"unsupported", what}}) : (this->*found->second)(ask);
}

// -- Clients

Answer Adapter::Reset() {
  decltype(begun_) begun;
  {
    absl::MutexLock lock(&mutex_);
    begun.swap(begun_);
  }
  begun.clear();  // which waits for them
  measures_.reset();
  absl::MutexLock lock(&mutex_);
  recordings_.clear();
  models_.clear();
  programs_.clear();
  buffers_.clear();
  clients_.clear();
  return Json::object();
}

Answer Adapter::Connect(const Json& ask) {
  auto made = std::make_shared<Connected>();
  KILN_ASSIGN_OR_RETURN(made->client, Client::Connect(Text(ask, "address"), OptionsOf(ask)));
  // A server without streams is called.
  made->streams = ask.value("stream", false);
  if (absl::IsUnimplemented(made->stream().status())) made->streams = false;
  Json devices = Json::array();
  for (const v1::Device& device : made->client->server().devices()) devices.push_back(device.name());
  Json features = Json::array();
  for (const std::string& feature : made->client->server().features()) features.push_back(feature);
  absl::MutexLock lock(&mutex_);
  clients_[Text(ask, "client")] = std::move(made);
  return Json{{"features", std::move(features)}, {"devices", std::move(devices)}};
}

Answer Adapter::Close(const Json& ask) {
  const std::string name = Text(ask, "client");
  absl::MutexLock lock(&mutex_);
  const auto is_its_own = [&name](const auto& row) { return row.second.client == name; };
  std::erase_if(recordings_, is_its_own);
  std::erase_if(models_, is_its_own);
  std::erase_if(programs_, is_its_own);
  std::erase_if(buffers_, [&name](const auto& row) { return row.second->client == name; });
  clients_.erase(name);
  return Json::object();
}

absl::StatusOr<std::shared_ptr<Connected>> Adapter::ClientOf(const Json& ask) {
  absl::MutexLock lock(&mutex_);
  const auto found = clients_.find(Text(ask, "client"));
  if (found == clients_.end()) return Nothing("client", Text(ask, "client"));
  return found->second;
}

absl::StatusOr<std::shared_ptr<Memory>> Adapter::BufferOf(const Json& name) {
  absl::MutexLock lock(&mutex_);
  const auto found = buffers_.find(name.get<std::string>());
  if (found == buffers_.end()) return Nothing("buffer", name);
  return found->second;
}

absl::StatusOr<Program> Adapter::ProgramOf(const Json& name) {
  absl::MutexLock lock(&mutex_);
  const auto found = programs_.find(name.get<std::string>());
  if (found == programs_.end()) return Nothing("program", name);
  return found->second.program;
}

absl::StatusOr<std::vector<v1::BufferRef>> Adapter::RefsOf(const Json& names) {
  std::vector<v1::BufferRef> refs;
  for (const Json& name : names) {
    KILN_ASSIGN_OR_RETURN(const auto buffer, BufferOf(name));
    refs.push_back(buffer->Ref());
  }
  return refs;
}

void Adapter::Keep(const std::string& name, Memory memory) {
  absl::MutexLock lock(&mutex_);
  buffers_[name] = std::make_shared<Memory>(std::move(memory));
}

// -- Programs

Answer Adapter::Compile(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(Program program, one->client->Compile(GraphOf(ask)));
  Json said = {{"hash", absl::BytesToHexString(program.hash())}};
  absl::MutexLock lock(&mutex_);
  programs_.insert_or_assign(Text(ask, "as"), Made{Text(ask, "client"), std::move(program)});
  return said;
}

Answer Adapter::Gradient(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  client::GradientOptions options;
  options.wrt_slots = ask["wrt"].get<std::vector<uint32_t>>();
  KILN_ASSIGN_OR_RETURN(const auto made, one->client->Gradient(GraphOf(ask), options));
  return Json{{"graph", Encoded(made.graph().SerializeAsString())}};
}

absl::StatusOr<RunResults> Adapter::Ran(const Program& program, const Arguments& arguments, const Json& ask,
                                        v1::ResultMode results) {
  client::RunOptions options;
  options.results = results;
  if (ask.contains("timeout_ms")) options.timeout = absl::Milliseconds(ask["timeout_ms"].get<int64_t>());
  if (!ask.contains("cancel_after_ms")) return program.Run(arguments, options);
  client::Cancellation cancellation;
  options.cancellation = &cancellation;
  const GivesUp gives_up(cancellation, absl::Milliseconds(ask["cancel_after_ms"].get<int64_t>()));
  return program.Run(arguments, options);
}

Answer Adapter::Run(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const Program program, ProgramOf(ask["program"]));
  Arguments arguments;
  uint32_t slot = 0;
  for (const Json& item : ask["arguments"]) {
    if (item.contains("tensor")) {
      arguments.Set(slot, TensorOf(item["tensor"]));
    } else if (item.contains("integer")) {
      arguments.Set(slot, item["integer"].get<int64_t>());
    } else {
      KILN_ASSIGN_OR_RETURN(const auto buffer, BufferOf(item["buffer"]));
      arguments.Set(slot, buffer->Ref());
    }
    ++slot;
  }
  if (ask.contains("keep")) return RunAndKeep(program, arguments, ask, ask["keep"]);
  KILN_ASSIGN_OR_RETURN(const RunResults run, Ran(program, arguments, ask, v1::RESULT_INLINE));
  Json results = Json::array();
  for (const client::RunResult& result : run.results) results.push_back(Told(result.tensor));
  return Json{{"results", std::move(results)}};
}

Answer Adapter::UncheckedRun(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const Program program, ProgramOf(ask["program"]));
  KILN_ASSIGN_OR_RETURN(const auto buffer, BufferOf(ask["buffer"]));
  return RunAndKeep(program, Arguments().Set(0, buffer->Ref()), ask, Json::array({ask["keep"]}));
}

Answer Adapter::RunAndKeep(const Program& program, const Arguments& arguments, const Json& ask, const Json& names) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(const auto stream, one->stream());
  std::vector<Memory> made;
  if (stream != nullptr) {
    const std::vector<v1::BufferRef> results = stream->Execute(program, arguments, Text(ask, "tag"));
    for (int i = 0; i < program.signature().results_size(); ++i) {
      const v1::Signature::Result& row = program.signature().results(i);
      made.push_back({Text(ask, "client"),
                      {},
                      results[static_cast<size_t>(i)],
                      row.dtype(),
                      client::Shape(row.shape().begin(), row.shape().end())});
    }
  } else {
    KILN_ASSIGN_OR_RETURN(RunResults run, Ran(program, arguments, ask, v1::RESULT_HANDLES));
    for (client::RunResult& result : run.results) {
      const v1::DType dtype = result.buffer.dtype();
      const client::Shape shape = result.buffer.shape();
      made.push_back({Text(ask, "client"), std::move(result.buffer), {}, dtype, shape});
    }
  }
  for (size_t i = 0; i < std::min(names.size(), made.size()); ++i) {
    Keep(names[i].get<std::string>(), std::move(made[i]));
  }
  return Json::object();
}

Answer Adapter::RunFiles(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(v1::Graph graph, client::ReadGraph(Text(ask, "graph_file")));
  KILN_ASSIGN_OR_RETURN(const auto constants, client::ReadConstants(Text(ask, "constants_file")));
  KILN_ASSIGN_OR_RETURN(const Program program, one->client->Compile(std::move(graph)));
  Arguments arguments;
  std::vector<client::DeviceBuffer> uploaded;
  for (const auto& [slot, constant] : constants) {
    KILN_ASSIGN_OR_RETURN(client::DeviceBuffer buffer, one->client->Upload(constant));
    arguments.Set(slot, buffer);
    uploaded.push_back(std::move(buffer));
  }
  uint32_t slot = 0;
  for (const Json& item : ask["arguments"]) arguments.Set(slot++, TensorOf(item["tensor"]));
  KILN_ASSIGN_OR_RETURN(const RunResults run, Ran(program, arguments, ask, v1::RESULT_INLINE));
  Json results = Json::array();
  for (const client::RunResult& result : run.results) results.push_back(Told(result.tensor));
  return Json{{"results", std::move(results)}};
}

// -- Beside one another, and in a row

Answer Adapter::Begin(const Json& ask) {
  auto doing = std::async(std::launch::async, [this, request = ask["request"]] { return Do(request); });
  absl::MutexLock lock(&mutex_);
  begun_[Text(ask, "as")] = std::move(doing);
  return Json::object();
}

Answer Adapter::End(const Json& ask) {
  std::future<Json> doing;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = begun_.find(Text(ask, "of"));
    if (found == begun_.end()) return Nothing("request", ask["of"]);
    doing = std::move(found->second);
    begun_.erase(found);
  }
  return doing.get();
}

Answer Adapter::Fence(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  KILN_ASSIGN_OR_RETURN(const auto stream, one->stream());
  if (stream != nullptr) KILN_RETURN_IF_ERROR(stream->Fence().get());
  return Json::object();
}

Answer Adapter::Record(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  std::vector<client::RecordedCall> calls;
  for (const Json& step : ask["steps"]) {
    KILN_ASSIGN_OR_RETURN(Program program, ProgramOf(step[0]));
    calls.push_back({std::move(program), {}});
    for (const Json& buffer : step[1]) calls.back().memory.push_back({buffer.get<uint32_t>(), 0});
  }
  KILN_ASSIGN_OR_RETURN(client::Recording recording, one->client->Record(calls));
  absl::MutexLock lock(&mutex_);
  recordings_.insert_or_assign(Text(ask, "as"), Recorded{Text(ask, "client"), std::move(recording)});
  return Json::object();
}

Answer Adapter::Replay(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto buffers, RefsOf(ask["buffers"]));
  std::optional<client::Recording> recording;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = recordings_.find(Text(ask, "recording"));
    if (found == recordings_.end()) return Nothing("recording", ask["recording"]);
    recording = found->second.recording;
  }
  KILN_RETURN_IF_ERROR(recording->Replay(buffers));
  return Json::object();
}

Answer Adapter::Collective(const Json& ask) {
  KILN_ASSIGN_OR_RETURN(const auto one, ClientOf(ask));
  using Command = v1::CollectiveCommand;
  const std::string name = Text(ask, "kind"), op = Text(ask, "op");
  Command::Kind kind = Command::KIND_UNSPECIFIED;
  Command::Kind_Parse(absl::AsciiStrToUpper(name), &kind);
  v1::CollectiveRequest request;
  KILN_ASSIGN_OR_RETURN(const auto inputs, RefsOf(ask["inputs"]));
  KILN_ASSIGN_OR_RETURN(const auto outputs, RefsOf(ask["outputs"]));
  request.mutable_input()->Assign(inputs.begin(), inputs.end());
  request.mutable_output()->Assign(outputs.begin(), outputs.end());
  // The whole's elements are those of an output, but where the outputs are its parts.
  const bool parts = kind == Command::BROADCAST || kind == Command::SCATTER || kind == Command::REDUCE_SCATTER;
  KILN_ASSIGN_OR_RETURN(const auto whole, BufferOf(ask[parts ? "inputs" : "outputs"][0]));
  request.set_dtype(whole->dtype);
  request.set_count(static_cast<uint64_t>(client::ElementCount(whole->shape).value_or(0)));
  request.set_root(ask.value("root", 0u));
  if (!op.empty()) request.set_op(op == "sum" ? v1::ADD : op == "prod" ? v1::MUL : v1::MAX);
  KILN_RETURN_IF_ERROR(one->client->Collective(kind, request).status());
  return Json::object();
}

Answer Adapter::Bench(const Json& ask) {
  const std::string what = Text(ask, "what");
  if (what == "prepare") {
    Measures::Graphs graphs;
    for (const auto& [name, graph] : {std::pair("affine", &graphs.affine), std::pair("counting", &graphs.counting),
                                      std::pair("large", &graphs.large)}) {
      graph->ParseFromString(Decoded(ask, name));
    }
    KILN_ASSIGN_OR_RETURN(measures_, Measures::Prepare(Text(ask, "address"), Number(ask["bytes"]), std::move(graphs)));
    return Json::object();
  }
  if (measures_ == nullptr) return Bad("nothing was prepared");
  KILN_ASSIGN_OR_RETURN(const double seconds,
                        measures_->Seconds(what, ask.value("bare", false), ask["count"].get<int64_t>()));
  return Json{{"seconds", seconds}};
}

}  // namespace kiln::adapter
