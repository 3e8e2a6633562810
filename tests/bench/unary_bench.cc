// What a request costs beside the wire: a warm Execute of a tiny program by
// hash, and a Compile that is a hit, next to a bare gRPC unary call of the same
// size in the same run; and what a further kernel of a recorded sequence costs, as the
// difference of two recordings. Then what it costs that the server knows who asks, of two
// servers that differ by nothing else (tests/bench/identity_bench.py has further ways to be
// known, and a client in Python). The kinds take turns, call by call, so that whatever else
// the machine does falls on all of them alike.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/graph/graph_text.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "server/config.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/echo_service.h"

namespace kiln::bench {
namespace {

// y = x + 1, sent and answered by value.
constexpr char kByValue[] = R"(
  0 CONST [] weakint 64
  1 PARAM : float32 [0] slot=0
  2 CONST [] float32 1.0
  3 ADD [1, 2]
  4 TUPLE [3]
)";

// What the longer recording has beyond the short one's single kernel.
constexpr int kFurtherSteps = 1000;
constexpr char kOneKernel[] = "ReplaySequence, 1 kernel";

struct Kind {
  std::string name;
  std::function<grpc::Status()> call;
  std::vector<double> micros;

  double Percentile(double p) const {
    const size_t index = static_cast<size_t>(p * static_cast<double>(micros.size() - 1) + 0.5);
    return micros[index];
  }
};

// A server, and requests ready to be sent to it.
class Bench {
 public:
  Bench() {
    const auto channel = ChannelTo(server_.address());
    kernel_ = v1::KernelService::NewStub(channel);
    echo_channel_ = ChannelTo(echo_.address());
    auto buffers = v1::BufferService::NewStub(channel);

    *compile_.mutable_graph() = *ParseGraph(kTiny);
    by_handle_.set_graph_hash(server_.Compile(kTiny));
    by_value_.set_graph_hash(server_.Compile(kByValue));

    v1::AllocateRequest allocate;
    allocate.set_bytes(kTinyBytes);
    v1::AllocateResponse allocated;
    grpc::ClientContext context;
    KILN_CHECK(buffers->Allocate(&context, allocate, &allocated).ok());
    v1::Argument* argument = by_handle_.add_arguments();
    argument->mutable_buffer()->set_handle(allocated.buffer().handle());
    for (v1::ReplaySequenceRequest* replay : {&one_step_, &many_steps_}) {
      replay->set_recording(Recorded(replay == &one_step_ ? 1 : 1 + kFurtherSteps));
      replay->add_buffers()->set_handle(allocated.buffer().handle());
    }
    v1::Tensor* tensor = by_value_.add_arguments()->mutable_tensor();
    tensor->set_dtype(v1::FLOAT32);
    tensor->add_shape(64);
    tensor->set_data(std::string(256, '\0'));
    by_value_.set_result_mode(v1::RESULT_INLINE);

    echo_request_ = ToMessage(by_handle_.SerializeAsString());
  }

  // The bare call first.
  std::vector<Kind> Kinds() {
    return {
        {"bare unary call", [this] { return Echo(*echo_channel_, echo_request_); }, {}},
        {"Execute by hash, handles", [this] { return Execute(by_handle_); }, {}},
        {"Execute by hash, values", [this] { return Execute(by_value_); }, {}},
        {kOneKernel, [this] { return Replay(one_step_); }, {}},
        {absl::StrCat("ReplaySequence, ", 1 + kFurtherSteps, " kernels"), [this] { return Replay(many_steps_); }, {}},
        {"Compile, a hit",
         [this] {
           grpc::ClientContext context;
           v1::CompileResponse response;
           return kernel_->Compile(&context, compile_, &response);
         },
         {}},
    };
  }

 private:
  // So many times the tiny program, one after the other.
  std::string Recorded(int steps) {
    v1::RecordSequenceRequest request;
    request.add_programs()->set_graph_hash(by_handle_.graph_hash());
    for (int i = 0; i < steps; ++i) request.add_steps()->add_arguments()->mutable_memory();
    grpc::ClientContext context;
    v1::RecordSequenceResponse response;
    KILN_CHECK(kernel_->RecordSequence(&context, request, &response).ok());
    return response.recording();
  }

  grpc::Status Replay(const v1::ReplaySequenceRequest& request) {
    grpc::ClientContext context;
    v1::ReplaySequenceResponse response;
    return kernel_->ReplaySequence(&context, request, &response);
  }

  grpc::Status Execute(const v1::ExecuteRequest& request) {
    grpc::ClientContext context;
    v1::ExecuteResponse response;
    return kernel_->Execute(&context, request, &response);
  }

  const BenchServer server_;
  EchoServer echo_;
  std::unique_ptr<v1::KernelService::Stub> kernel_;
  std::shared_ptr<grpc::Channel> echo_channel_;
  v1::CompileRequest compile_;
  v1::ExecuteRequest by_handle_;
  v1::ExecuteRequest by_value_;
  v1::ReplaySequenceRequest one_step_;
  v1::ReplaySequenceRequest many_steps_;
  grpc::ByteBuffer echo_request_;
};

// Of the token "secret".
constexpr char kTenants[] =
    "tenant { name: \"a\" token { sha256: \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\" } }\n";

// A server that serves anonymous callers, or tenants alone; and the tiny program there.
class Asked {
 public:
  explicit Asked(bool knows)
      : file_(std::filesystem::temp_directory_path() / absl::StrCat("kiln_unary_bench_", getpid(), ".txtpb")),
        knows_(knows),
        server_(Config()) {
    const auto channel = ChannelTo(server_.address());
    kernel_ = v1::KernelService::NewStub(channel);
    v1::CompileRequest compile;
    *compile.mutable_graph() = *ParseGraph(kTiny);
    v1::CompileResponse compiled;
    const std::unique_ptr<grpc::ClientContext> first = Context(), second = Context();
    KILN_CHECK(kernel_->Compile(first.get(), compile, &compiled).ok());
    v1::AllocateRequest allocate;
    allocate.set_bytes(kTinyBytes);
    v1::AllocateResponse allocated;
    KILN_CHECK(v1::BufferService::NewStub(channel)->Allocate(second.get(), allocate, &allocated).ok());
    request_.set_graph_hash(compiled.graph_hash());
    request_.add_arguments()->mutable_buffer()->set_handle(allocated.buffer().handle());
  }

  ~Asked() {
    std::error_code unused;
    std::filesystem::remove(file_, unused);
  }

  grpc::Status Execute() {
    v1::ExecuteResponse response;
    return kernel_->Execute(Context().get(), request_, &response);
  }

 private:
  v1::ServerConfig Config() const {
    v1::ServerConfig config = server::DefaultConfig();
    config.set_compile_isolation("off");
    if (!knows_) return config;
    std::ofstream(file_) << kTenants;
    config.set_tenants(file_.string());
    return config;
  }
  std::unique_ptr<grpc::ClientContext> Context() const {
    auto context = std::make_unique<grpc::ClientContext>();
    if (knows_) context->AddMetadata("authorization", "Bearer secret");
    return context;
  }

  const std::filesystem::path file_;  // of tenants
  const bool knows_;
  const BenchServer server_;
  std::unique_ptr<v1::KernelService::Stub> kernel_;
  v1::ExecuteRequest request_;
};

// One call; its time counts unless it is for warming up.
bool Take(Kind& kind, bool counts) {
  const auto begin = std::chrono::steady_clock::now();
  const grpc::Status status = kind.call();
  const auto end = std::chrono::steady_clock::now();
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", kind.name.c_str(), status.error_message().c_str());
  if (counts) kind.micros.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
  return status.ok();
}

// A bare call before each other one, so that the bare server is as awake as
// Kiln's whenever its turn comes.
bool Measure(std::vector<Kind>& kinds, int warmup, int iterations) {
  for (int i = 0; i < warmup + iterations; ++i) {
    for (size_t k = 1; k < kinds.size(); ++k) {
      if (!Take(kinds[0], i >= warmup) || !Take(kinds[k], i >= warmup)) return false;
    }
  }
  for (Kind& kind : kinds) std::sort(kind.micros.begin(), kind.micros.end());
  return true;
}

nlohmann::json Report(const std::vector<Kind>& kinds, int iterations) {
  const Kind& bare = kinds.front();
  nlohmann::json rows = nlohmann::json::array();
  std::printf("%-28s %10s %10s %12s %12s\n", "one client, in turns", "p50 us", "p99 us", "p50 / bare", "p99 / bare");
  for (const Kind& kind : kinds) {
    const double p50 = kind.Percentile(0.50), p99 = kind.Percentile(0.99);
    const double r50 = p50 / bare.Percentile(0.50), r99 = p99 / bare.Percentile(0.99);
    std::printf("%-28s %10.1f %10.1f %12.2f %12.2f\n", kind.name.c_str(), p50, p99, r50, r99);
    rows.push_back({{"name", kind.name}, {"p50_us", p50}, {"p99_us", p99}, {"p50_ratio", r50}, {"p99_ratio", r99}});
  }
  // The two recordings' rows differ by nothing but kernels.
  const auto row = std::find_if(kinds.begin(), kinds.end(), [](const Kind& k) { return k.name == kOneKernel; });
  const double further = (row[1].Percentile(0.50) - row[0].Percentile(0.50)) / kFurtherSteps;
  std::printf("a further kernel of a replay: %.3f us\n", further);
  return {{"bench", "unary"}, {"iterations", iterations}, {"rows", rows}, {"further_kernel_us", further}};
}

int Main(int argc, char** argv) {
  CLI::App app{"Measures warm requests beside a bare gRPC unary call.", "unary_bench"};
  int iterations = 5000;
  bool smoke = false;
  std::string json_path;
  app.add_option("--iterations", iterations, "calls of each kind")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_flag("--smoke", smoke, "few calls: only to see that it runs");
  app.add_option("--json", json_path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  if (smoke) iterations = 100;

  Bench bench;
  std::vector<Kind> kinds = bench.Kinds();
  if (!Measure(kinds, /*warmup=*/iterations / 10, iterations)) return 1;
  nlohmann::json report = Report(kinds, iterations);

  Asked nobody(/*knows=*/false), tenant(/*knows=*/true);
  std::vector<Kind> askers = {kinds[0],
                              {"Execute, anonymous", [&] { return nobody.Execute(); }, {}},
                              {"Execute, with a token", [&] { return tenant.Execute(); }, {}}};
  askers[0].micros.clear();
  if (!Measure(askers, /*warmup=*/iterations / 10, 2 * iterations)) return 1;
  const double known = askers[2].Percentile(0.50) / askers[1].Percentile(0.50);
  std::printf("%s: p50 %.1f us, %s: %.1f us, ratio %.3f\n", askers[1].name.c_str(), askers[1].Percentile(0.50),
              askers[2].name.c_str(), askers[2].Percentile(0.50), known);
  report["known_p50_ratio"] = known;
  return WriteReport(report, json_path);
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
