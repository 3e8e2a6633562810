// What it costs to be watched: servers that nobody looks at, that are scraped each second and export
// traces by the defaults, and that export every call, in one process and in turns. Latency is of one
// client, call by call; throughput of several at once, in slices.
//
// Counting itself is always on; ./dev bench service has what it is a part of.
#include <CivetServer.h>
#include <curl/curl.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "tests/bench/bench_server.h"

namespace kiln::bench {
namespace {

// Takes whatever is sent to it.
class Sink final : public CivetHandler {
 public:
  Sink() : server_(std::vector<std::string>{"listening_ports", "127.0.0.1:0", "num_threads", "2"}) {
    server_.addHandler("**", this);
  }
  std::string url() { return absl::StrCat("http://127.0.0.1:", server_.getListeningPorts().front(), "/v1/traces"); }
  uint64_t bytes() const { return bytes_.load(); }

  bool handlePost(CivetServer*, mg_connection* connection) override {
    char piece[1 << 14];
    for (int size; (size = mg_read(connection, piece, sizeof(piece))) > 0;) bytes_ += static_cast<uint64_t>(size);
    mg_printf(connection, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    return true;
  }

 private:
  std::atomic<uint64_t> bytes_{0};
  CivetServer server_;
};

size_t Ignore(const char*, size_t bytes, size_t count, void*) { return bytes * count; }

// Reads /metrics each second, as Prometheus does, who asks more seldom.
class Scraper {
 public:
  explicit Scraper(int port) : url_(absl::StrCat("http://127.0.0.1:", port, "/metrics")), thread_([this] { Run(); }) {}
  ~Scraper() {
    stop_.Notify();
    thread_.join();
  }
  int scrapes() const { return scrapes_.load(); }

 private:
  void Run() {
    do {
      CURL* const curl = curl_easy_init();
      curl_easy_setopt(curl, CURLOPT_URL, url_.c_str());
      curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
      curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Ignore);
      if (curl_easy_perform(curl) == CURLE_OK) ++scrapes_;
      curl_easy_cleanup(curl);
    } while (!stop_.WaitForNotificationWithTimeout(absl::Seconds(1)));
  }

  const std::string url_;
  std::atomic<int> scrapes_{0};
  absl::Notification stop_;
  std::thread thread_;
};

v1::ServerConfig SetBy(const std::function<void(v1::ServerConfig&)>& set) {
  v1::ServerConfig config = server::DefaultConfig();
  set(config);
  return config;
}

// A server, and clients of it with the least program there is.
class Watched {
 public:
  Watched(std::string name, const std::function<void(v1::ServerConfig&)>& set, int clients)
      : name(std::move(name)), server_(SetBy(set)) {
    const int port = server_.server().admin_port();
    if (port != 0) scraper_ = std::make_unique<Scraper>(port);
    request_.set_graph_hash(server_.Compile(kTiny));
    v1::AllocateRequest allocate;
    allocate.set_bytes(kTinyBytes);
    v1::AllocateResponse allocated;
    grpc::ClientContext context;
    KILN_CHECK(v1::BufferService::NewStub(ChannelTo(server_.address()))->Allocate(&context, allocate, &allocated).ok());
    request_.add_arguments()->mutable_buffer()->set_handle(allocated.buffer().handle());
    for (int i = 0; i < clients; ++i) stubs_.push_back(v1::KernelService::NewStub(ChannelTo(server_.address())));
  }

  void Call(size_t client) {
    grpc::ClientContext context;
    v1::ExecuteResponse response;
    KILN_CHECK(stubs_[client]->Execute(&context, request_, &response).ok());
  }

  // Calls a second of all clients together.
  double Slice(double seconds) {
    std::atomic<uint64_t> calls{0};
    std::vector<std::thread> clients;
    const auto begin = std::chrono::steady_clock::now();
    for (size_t client = 0; client < stubs_.size(); ++client) {
      clients.emplace_back([&, client] {
        uint64_t own = 0;
        for (; SecondsSince(begin) < seconds; ++own) Call(client);
        calls += own;
      });
    }
    for (std::thread& client : clients) client.join();
    return static_cast<double>(calls.load()) / SecondsSince(begin);
  }

  int scrapes() const { return scraper_ == nullptr ? 0 : scraper_->scrapes(); }

  const std::string name;
  std::vector<double> micros, rates;

 private:
  BenchServer server_;
  std::unique_ptr<Scraper> scraper_;
  v1::ExecuteRequest request_;
  std::vector<std::unique_ptr<v1::KernelService::Stub>> stubs_;
};

// The median of what each turn of it was beside the same turn of the other: what the machine does meanwhile falls on
// both alike.
double MedianRatio(const std::vector<double>& values, const std::vector<double>& others) {
  std::vector<double> ratios;
  for (size_t i = 0; i < values.size(); ++i) ratios.push_back(values[i] / others[i]);
  return Percentile(std::move(ratios), 0.5);
}

int Main(int argc, char** argv) {
  CLI::App app{"Measures what metrics and traces cost those who are watched.", "watched_bench"};
  int rounds = 24, calls = 1500, clients = 4;
  double seconds = 1;
  bool smoke = false;
  std::string json_path;
  app.add_option("--rounds", rounds, "slices of each server, and batches of calls")->capture_default_str();
  app.add_option("--calls", calls, "calls of one client to each server a round")->capture_default_str();
  app.add_option("--clients", clients, "clients at once, for throughput")->capture_default_str();
  app.add_option("--seconds", seconds, "of a slice")->capture_default_str();
  app.add_flag("--smoke", smoke, "little of each: only to see that it runs");
  app.add_option("--json", json_path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  if (smoke) rounds = 2, calls = 20, seconds = 0.05;

  Sink sink;
  const auto watch = [&](double ratio) {
    return [&sink, ratio](v1::ServerConfig& config) {
      config.set_admin_listen("127.0.0.1:0");
      config.set_otlp_endpoint(sink.url());
      if (ratio > 0) config.set_trace_sample_ratio(ratio);
    };
  };
  std::vector<std::unique_ptr<Watched>> servers;
  const auto add = [&](const char* name, const std::function<void(v1::ServerConfig&)>& set) {
    servers.push_back(std::make_unique<Watched>(name, set, clients));
  };
  add("nobody watches", [](v1::ServerConfig& config) {
    config.set_trace_buffer_bytes(0);
    config.set_otlp_endpoint("none");
  });
  add("scraped, traced, exporting 1%", watch(0));
  add("exporting every call", watch(1));

  for (int round = -1; round < rounds; ++round) {  // the first only warms up
    // A batch's median of each, so that its rounds can be compared.
    std::vector<std::vector<double>> micros(servers.size());
    for (int call = 0; call < calls; ++call) {
      for (size_t i = 0; i < servers.size(); ++i) {
        const size_t turn = (i + static_cast<size_t>(call)) % servers.size();
        const auto begin = std::chrono::steady_clock::now();
        servers[turn]->Call(0);
        micros[turn].push_back(SecondsSince(begin) * 1e6);
      }
    }
    for (size_t i = 0; i < servers.size(); ++i) {
      const size_t turn = (i + static_cast<size_t>(round + 1)) % servers.size();
      const double rate = servers[turn]->Slice(seconds);
      if (round < 0) continue;
      servers[turn]->micros.push_back(Percentile(micros[turn], 0.5));
      servers[turn]->rates.push_back(rate);
    }
  }

  const Watched& alone = *servers.front();
  nlohmann::json rows = nlohmann::json::array();
  std::printf("%-30s %10s %12s %12s %14s %8s\n", "in turns", "p50 us", "p50 / none", "calls / s", "calls / none",
              "scrapes");
  for (const auto& server : servers) {
    const double p50 = Percentile(server->micros, 0.5), rate = Percentile(server->rates, 0.5);
    const double p50_ratio = MedianRatio(server->micros, alone.micros),
                 rate_ratio = MedianRatio(server->rates, alone.rates);
    std::printf("%-30s %10.1f %12.3f %12.0f %14.3f %8d\n", server->name.c_str(), p50, p50_ratio, rate, rate_ratio,
                server->scrapes());
    rows.push_back({{"name", server->name},
                    {"p50_us", p50},
                    {"p50_ratio", p50_ratio},
                    {"calls_per_second", rate},
                    {"calls_ratio", rate_ratio}});
  }
  servers.clear();  // what they have goes out
  std::printf("exported: %.1f MB\n", static_cast<double>(sink.bytes()) / 1e6);
  return WriteReport({{"bench", "watched"}, {"rounds", rounds}, {"rows", rows}}, json_path);
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
