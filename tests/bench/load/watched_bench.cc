// What it costs to be watched: a server that nobody looks at beside one that keeps and exports traces, writes its logs,
// is scraped, and has a page open in a browser; warm runs of the least program there is.
//
// All servers are in one process and take turns: latency is of one client, in batches of some calls; throughput of
// several clients at once, in slices. A server is looked at while it has its turn, and a slice counts once that has
// gone on for a second: so what is exported and written a moment later falls on it, not on the next. Each ratio is of
// two turns of the same round; the middle of all rounds is said, with the quarters below and above. The first server is
// there twice: how far those two seem apart is what the machine adds to every row.
//
// Counting itself is always on: ./dev bench service has what it is a part of.
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
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/config.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "server/config.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/load/loads.h"

namespace kiln::bench {
namespace {

struct Settings {
  int rounds = 24;
  int calls = 1500;  // of one client to each server a round
  int clients = 4;
  double seconds = 2;  // of a slice
  double lead = 1.2;   // of clients before it counts
};

constexpr int kBatch = 50;

// A collector that takes whatever is sent to it.
class Sink final : public CivetHandler {
 public:
  Sink() : server_(std::vector<std::string>{"listening_ports", "127.0.0.1:0", "num_threads", "4"}) {
    server_.addHandler("**", this);
  }
  std::string url() { return absl::StrCat("http://127.0.0.1:", server_.getListeningPorts().front(), "/v1/traces"); }
  uint64_t bytes() const { return bytes_.load(); }

  bool handlePost(CivetServer*, mg_connection* connection) override {
    char piece[1 << 14];
    for (int size; (size = mg_read(connection, piece, sizeof(piece))) > 0;) bytes_ += static_cast<uint64_t>(size);
    mg_printf(connection, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    return true;
  }

 private:
  std::atomic<uint64_t> bytes_{0};
  CivetServer server_;
};

size_t Ignore(const char*, size_t bytes, size_t count, void*) { return bytes * count; }

void Get(const std::string& url) {
  CURL* const curl = curl_easy_init();
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Ignore);
  KILN_CHECK(curl_easy_perform(curl) == CURLE_OK);
  curl_easy_cleanup(curl);
}

// Each second, for as long as it lives: a scrape, as Prometheus does more seldom, and what the page of shares asks for.
class Looker {
 public:
  explicit Looker(int port) : port_(port), thread_([this] { Run(); }) {}
  ~Looker() {
    stop_.Notify();
    thread_.join();
  }

 private:
  void Run() {
    do {
      for (const char* page : {"/metrics", "/api/state?history=180"})
        Get(absl::StrCat("http://127.0.0.1:", port_, page));
    } while (!stop_.WaitForNotificationWithTimeout(absl::Seconds(1)));
  }

  const int port_;
  absl::Notification stop_;
  std::thread thread_;
};

// A server and its clients.
class Watched {
 public:
  Watched(std::string name, const v1::ServerConfig& config, int clients) : name(std::move(name)), server_(config) {
    request_.set_graph_hash(server_.Compile(kTiny));
    v1::AllocateRequest allocate;
    allocate.set_bytes(kTinyBytes);
    v1::AllocateResponse allocated;
    grpc::ClientContext context;
    KILN_CHECK(v1::BufferService::NewStub(ChannelTo(server_.address()))->Allocate(&context, allocate, &allocated).ok());
    request_.add_arguments()->mutable_buffer()->set_handle(allocated.buffer().handle());
    for (int i = 0; i < clients; ++i) stubs_.push_back(v1::KernelService::NewStub(ChannelTo(server_.address())));
  }

  // Somebody who looks at it; null where nobody does.
  std::unique_ptr<Looker> Look() {
    const int port = server_.server().admin_port();
    return port == 0 ? nullptr : std::make_unique<Looker>(port);
  }

  void Batch(std::vector<double>& times) {
    for (int call = 0; call < kBatch; ++call) {
      const auto begin = std::chrono::steady_clock::now();
      Call(0);
      times.push_back(SecondsSince(begin) * 1e6);
    }
  }

  // Calls a second of all clients together.
  double Slice(double lead, double seconds) {
    std::atomic<uint64_t> calls{0};
    std::vector<std::thread> clients;
    const auto begin = std::chrono::steady_clock::now();
    for (size_t client = 0; client < stubs_.size(); ++client) {
      clients.emplace_back([&, client] {
        uint64_t own = 0;
        for (double at = 0; at < lead + seconds; at = SecondsSince(begin)) {
          Call(client);
          if (at >= lead) ++own;
        }
        calls += own;
      });
    }
    for (std::thread& client : clients) client.join();
    return static_cast<double>(calls.load()) / seconds;
  }

  const std::string name;
  std::vector<double> micros, rates;  // by round

 private:
  void Call(size_t client) {
    grpc::ClientContext context;
    v1::ExecuteResponse response;
    KILN_CHECK(stubs_[client]->Execute(&context, request_, &response).ok());
  }

  BenchServer server_;
  v1::ExecuteRequest request_;
  std::vector<std::unique_ptr<v1::KernelService::Stub>> stubs_;
};

using Servers = std::vector<std::unique_ptr<Watched>>;

v1::ServerConfig Unwatched() {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_trace_buffer_bytes(0);
  config.set_otlp_endpoint("none");
  config.set_slow_request_ms(0);
  return config;
}

// Everything there is, by its defaults. `name` is that of its logs.
v1::ServerConfig All(const Folder& folder, const std::string& name, const std::string& collector) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_admin_listen("127.0.0.1:0");
  config.set_otlp_endpoint(collector);
  config.set_audit_log(folder.Write(name + ".audit", ""));
  config.set_access_log(folder.Write(name + ".access", ""));
  config.set_slow_log(folder.Write(name + ".slow", ""));
  return config;
}

// Medians of one round, so that rounds can be compared. All are looked at, since their calls alternate.
std::vector<double> Latencies(Servers& servers, int calls) {
  std::vector<std::unique_ptr<Looker>> lookers;
  for (const auto& server : servers) lookers.push_back(server->Look());
  std::vector<std::vector<double>> micros(servers.size());
  for (int batch = 0; batch * kBatch < calls; ++batch) {
    for (size_t i = 0; i < servers.size(); ++i) {
      const size_t turn = (i + static_cast<size_t>(batch)) % servers.size();
      servers[turn]->Batch(micros[turn]);
    }
  }
  std::vector<double> medians;
  for (auto& values : micros) medians.push_back(Percentile(std::move(values), 0.5));
  return medians;
}

void Measure(Servers& servers, const Settings& settings) {
  for (int round = -1; round < settings.rounds; ++round) {  // the first only warms up
    const std::vector<double> micros = Latencies(servers, settings.calls);
    for (size_t i = 0; i < servers.size(); ++i) {
      const size_t turn = (i + static_cast<size_t>(round + 1)) % servers.size();
      const auto looker = servers[turn]->Look();
      const double rate = servers[turn]->Slice(settings.lead, settings.seconds);
      if (round < 0) continue;
      servers[turn]->rates.push_back(rate);
      servers[turn]->micros.push_back(micros[turn]);
    }
  }
}

// What a server's rounds were beside the same rounds of another.
struct Ratio {
  Ratio(const std::vector<double>& values, const std::vector<double>& others) {
    std::vector<double> ratios;
    for (size_t i = 0; i < values.size(); ++i) ratios.push_back(values[i] / others[i]);
    low = Percentile(ratios, 0.25), median = Percentile(ratios, 0.5), high = Percentile(ratios, 0.75);
  }
  nlohmann::json Json() const { return {{"median", median}, {"low", low}, {"high", high}}; }

  double low, median, high;
};

nlohmann::json Print(const Servers& servers) {
  const Watched& alone = *servers.front();
  nlohmann::json rows = nlohmann::json::array();
  std::printf("%-26s %8s  %-22s %10s  %s\n", "", "p50 us", "/ unwatched", "calls / s", "/ unwatched");
  for (const auto& server : servers) {
    const double p50 = Percentile(server->micros, 0.5), rate = Percentile(server->rates, 0.5);
    const Ratio micros(server->micros, alone.micros), rates(server->rates, alone.rates);
    std::printf("%-26s %8.1f  %.3f (%.3f to %.3f) %10.0f  %.3f (%.3f to %.3f)\n", server->name.c_str(), p50,
                micros.median, micros.low, micros.high, rate, rates.median, rates.low, rates.high);
    rows.push_back({{"name", server->name},
                    {"p50_us", p50},
                    {"p50_ratio", micros.Json()},
                    {"calls_per_second", rate},
                    {"calls_ratio", rates.Json()}});
  }
  return rows;
}

int Main(int argc, char** argv) {
  CLI::App app{"Measures what it costs a server to be watched.", "watched_bench"};
  Settings settings;
  bool smoke = false;
  std::string json_path;
  app.add_option("--rounds", settings.rounds, "Turns of each server")->capture_default_str();
  app.add_option("--calls", settings.calls, "Calls of one client to each server a round")->capture_default_str();
  app.add_option("--clients", settings.clients, "Clients at once, for throughput")->capture_default_str();
  app.add_option("--seconds", settings.seconds, "Of a slice")->capture_default_str();
  app.add_option("--lead", settings.lead, "Seconds of clients before it counts")->capture_default_str();
  app.add_flag("--smoke", smoke, "Little of each: only to see that it runs");
  app.add_option("--json", json_path, "Also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  if (smoke) settings = {.rounds = 2, .calls = kBatch, .clients = 2, .seconds = 0.05, .lead = 0.05};

  KILN_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
  Sink sink;
  const Folder folder;
  v1::ServerConfig every = All(folder, "every", sink.url());
  every.set_trace_sample_ratio(1);
  Servers servers;
  for (const auto& [name, config] :
       {std::pair("unwatched", Unwatched()), std::pair("unwatched, again", Unwatched()),
        std::pair("watched", All(folder, "watched", sink.url())), std::pair("every call exported, too", every)}) {
    servers.push_back(std::make_unique<Watched>(name, config, settings.clients));
  }
  Measure(servers, settings);
  const nlohmann::json rows = Print(servers);
  servers.clear();  // what they have goes out
  std::printf("exported: %.1f MB\n", static_cast<double>(sink.bytes()) / 1e6);
  return WriteReport({{"bench", "watched"}, {"rounds", settings.rounds}, {"rows", rows}}, json_path);
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
