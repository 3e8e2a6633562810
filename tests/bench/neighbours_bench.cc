// What a tenant notices of another one's compilations that go wrong: warm runs of tenant a's small program, alone,
// beside tenant b's compilations that end well, and beside ones that crash, hang, take all memory or give code that is
// none. Fails if one of a's runs does, or if a compilation ended otherwise than it should.
//
// The bench is its own compile worker: one whose compiler does what the graph's first tag says.
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/graph/graph_text.h"
#include "compiler/compile_program.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "server/compile_worker/zygote.h"
#include "server/config.h"
#include "server/process/process.h"
#include "server/server.h"
#include "tests/bench/bench_server.h"

namespace kiln::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Of one worker: so little that "memory" is a fault at once.
constexpr uint64_t kWorkerBytes = uint64_t{512} << 20;
constexpr std::chrono::milliseconds kPatience{50};

// What may go wrong; "" does not.
constexpr const char* kFaults[] = {"abort", "hang", "memory", "garbage"};

// Those of the secrets "secret-a" and "secret-b".
constexpr char kTenants[] =
    "tenant { name: \"a\" token { sha256: \"8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1\" } }\n"
    "tenant { name: \"b\" token { sha256: \"ff492ef788c89b555e6f738b33d2422f57dbb6656af2402155672c5f123a90af\" } }\n";

// The worker's compiler.
absl::StatusOr<server::CompiledProgram> CompileOrNot(const v1::Graph& graph, const v1::Target& target,
                                                     const compiler::Options& options,
                                                     compiler::CompileObserver* observer) {
  const std::string what = graph.nodes_size() == 0 ? "" : graph.nodes(0).tag();
  if (what == "abort") std::abort();
  if (what == "hang") {
    for (volatile bool forever = true; forever;) {
    }
  }
  if (what == "memory") {
    for (std::vector<std::vector<char>> taken;;) taken.emplace_back(size_t{64} << 20, 'x');
  }
  auto program = compiler::CompileProgram(graph, target, options, observer);
  if (what == "garbage" && program.ok()) std::get<v1::Executable>(*program).set_object("no object at all");
  return program;
}

// x + 1 for so many elements, as no graph before had.
v1::Graph GraphOf(int elements, const std::string& tag) {
  v1::Graph graph = *ParseGraph(absl::StrCat("0 CONST [] weakint ", elements,
                                             "\n1 PARAM : float32 [0] slot=0\n2 CONST [] float32 1.0\n"
                                             "3 ADD [1, 2]\n4 TUPLE [3]\n"));
  graph.mutable_nodes(0)->set_tag(tag);
  return graph;
}

class Bench {
 public:
  Bench(double seconds, int compilations) : seconds_(seconds), compilations_(compilations) {
    server::PrepareToServe();
    const std::string tenants = std::filesystem::temp_directory_path() / absl::StrCat("kiln_neighbours.", getpid());
    std::ofstream(tenants) << kTenants;
    v1::ServerConfig config = server::DefaultConfig();
    config.set_listen("127.0.0.1:0");
    config.set_tenants(tenants);
    config.set_compile_isolation("on");
    config.mutable_compile_limits()->set_max_memory_bytes(kWorkerBytes);
    auto log = std::make_shared<spdlog::logger>("bench", std::make_shared<spdlog::sinks::null_sink_mt>());
    auto started = server::StartServer(config, std::move(log), "/proc/self/exe");
    if (!started.ok()) std::fprintf(stderr, "%s\n", started.status().ToString().c_str());
    KILN_CHECK(started.ok());
    std::filesystem::remove(tenants);
    server_ = *std::move(started);
    address_ = absl::StrCat("127.0.0.1:", server_->port());
    kernel_ = v1::KernelService::NewStub(ChannelTo(address_));
    warm_.set_graph_hash(Compile(*kernel_, *ParseGraph(kTiny), "a").second);
    v1::AllocateRequest allocate;
    allocate.set_bytes(kTinyBytes);
    v1::AllocateResponse allocated;
    grpc::ClientContext context;
    IsFrom(context, "a");
    KILN_CHECK(v1::BufferService::NewStub(ChannelTo(address_))->Allocate(&context, allocate, &allocated).ok());
    v1::Argument& argument = *warm_.add_arguments();
    argument.mutable_buffer()->set_handle(allocated.buffer().handle());
  }

  // Median and 99th percentile of the neighbour's runs, in microseconds, while so many threads have graphs compiled
  // that are tagged with these words in turns; how many these were, and how much of all that went wrong.
  struct Figures {
    double median, late;
    size_t runs;
    int compiled, wrong;
  };
  Figures Measure(int threads, const std::vector<std::string>& tags) {
    std::atomic<bool> done{false};
    std::atomic<int> compiled{0}, wrong{0};
    std::vector<std::thread> flood;
    for (int t = 0; t < threads; ++t) {
      flood.emplace_back([&] {
        const auto stub = v1::KernelService::NewStub(ChannelTo(address_));
        while (!done) {
          const int number = next_++;
          const std::string& tag = tags[static_cast<size_t>(number) % tags.size()];
          if (Compile(*stub, GraphOf(number, tag), "b").first != tag.empty()) ++wrong;
          ++compiled;
        }
      });
    }
    // Until the flood is one.
    while (compiled < 2 * threads) std::this_thread::yield();
    std::vector<double> micros;
    const auto begin = Clock::now();
    while (SecondsSince(begin) < seconds_ || (threads > 0 && compiled < compilations_)) {
      const auto sent = Clock::now();
      grpc::ClientContext context;
      IsFrom(context, "a");
      v1::ExecuteResponse response;
      const grpc::Status status = kernel_->Execute(&context, warm_, &response);
      if (!status.ok()) std::fprintf(stderr, "Execute: %s\n", status.error_message().c_str());
      wrong += status.ok() ? 0 : 1;
      micros.push_back(SecondsSince(sent) * 1e6);
    }
    done = true;
    for (std::thread& thread : flood) thread.join();
    return {Percentile(micros, 0.5), Percentile(micros, 0.99), micros.size(), compiled, wrong};
  }

 private:
  static void IsFrom(grpc::ClientContext& context, const std::string& tenant) {
    context.AddMetadata("authorization", absl::StrCat("Bearer secret-", tenant));
  }
  // Whether it was compiled, and its hash.
  static std::pair<bool, std::string> Compile(v1::KernelService::Stub& stub, const v1::Graph& graph,
                                              const std::string& tenant) {
    v1::CompileRequest request;
    *request.mutable_graph() = graph;
    grpc::ClientContext context;
    IsFrom(context, tenant);
    if (graph.nodes(0).tag() == "hang") context.set_deadline(std::chrono::system_clock::now() + kPatience);
    v1::CompileResponse response;
    const grpc::Status status = stub.Compile(&context, request, &response);
    return {status.ok(), response.graph_hash()};
  }

  const double seconds_;
  const int compilations_;
  std::unique_ptr<server::RpcServer> server_;
  std::string address_;
  std::unique_ptr<v1::KernelService::Stub> kernel_;
  v1::ExecuteRequest warm_;
  std::atomic<int> next_{1000};
};

int Main(int argc, char** argv) {
  CLI::App app("What warm runs notice of compilations beside them that go wrong");
  double seconds = 10;
  int threads = 2, compilations = 0;
  bool smoke = false;
  app.add_option("--seconds", seconds, "of each row");
  app.add_option("--threads", threads, "that have graphs compiled");
  app.add_option("--compilations", compilations, "of each row at least, however long they take");
  app.add_flag("--smoke", smoke, "a moment of each row: whether it works");
  CLI11_PARSE(app, argc, argv);
  Bench bench(smoke ? 0.2 : seconds, compilations);
  std::vector<std::pair<std::string, std::vector<std::string>>> rows = {
      {"compilations", {""}}, {"every fault in turns", {std::begin(kFaults), std::end(kFaults)}}};
  for (const char* fault : kFaults) rows.push_back({fault, {fault}});
  const Bench::Figures alone = bench.Measure(0, {});
  std::printf("| beside | p50 µs | p99 µs | p99 / alone | p99 / compilations | compilations | wrong |\n");
  std::printf("|---|---|---|---|---|---|---|\n| nothing (%zu runs) | %.0f | %.0f | 1 | | 0 | %d |\n", alone.runs,
              alone.median, alone.late, alone.wrong);
  int wrong = alone.wrong;
  double well = 0;  // the late ones beside what ends well, which is the first row
  for (const auto& [name, tags] : rows) {
    const Bench::Figures beside = bench.Measure(threads, tags);
    if (well == 0) well = beside.late;
    std::printf("| %s | %.0f | %.0f | %.2f | %.2f | %d | %d |\n", name.c_str(), beside.median, beside.late,
                beside.late / alone.late, beside.late / well, beside.compiled, beside.wrong);
    std::fflush(stdout);
    wrong += beside.wrong;
  }
  if (wrong != 0) std::printf("\n%d requests ended otherwise than they should\n", wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  if (!kiln::server::IsWorker(argc, argv)) return kiln::bench::Main(argc, argv);
  uint64_t memory_bytes = 0;
  KILN_CHECK(absl::SimpleAtoi(argv[2], &memory_bytes));
  return kiln::server::RunZygote({kiln::bench::CompileOrNot, nullptr}, memory_bytes);
}
