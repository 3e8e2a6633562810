// Whether a device is shared by weight, and what a small caller notices of others.
//
// Shares: tenants that want all they can get, half of them by runs of 5 ms and half by runs of 50 us, beside one that
// uploads and one that has graphs compiled all the time. After each second, each one's part of the device's time in
// that second, with what the device was in the middle of, against its part by weight. Beside it the longest run there
// was, by the clock, pauses included: in one second a tenant may be off by about a slice (server/fair/fair_queue.h has
// the bound). Where other work has the cores, a run of 5 ms takes longer; where something of everybody's always waits,
// the rest is not for want of it. That is the server's own account of the device's time; what does not depend on it is
// how many runs ended of tenants that are equals: they have one weight, and run the same.
//
// Tail: a third party's 100 runs of 50 us a second, alone; beside four tenants with runs of 5 ms, runs of 50 us,
// uploads and compilations; and with all of them on one connection of one tenant, whose requests the server takes in
// the order in which they come: one queue, as if nothing were shared.
//
// Alone: what a tenant that is alone pays for its turns: the same runs by turns, and handed to the device as they come.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/account.h"
#include "base/check.h"
#include "base/clock.h"
#include "client/cpp/client.h"
#include "server/config.h"
#include "server/engine/engine.h"
#include "server/fair/owner.h"
#include "server/fair/turns.h"
#include "server/process/process.h"
#include "server/server.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/load/alone.h"
#include "tests/bench/load/loads.h"

namespace kiln::bench {
namespace {

struct Settings {
  double seconds = 5;         // of each row of shares
  double tail_seconds = 20;   // of each row of tails
  double alone_seconds = 10;  // of each row of one alone
  int64_t short_elements = 1000, long_elements = 100'000;
  std::vector<int> tenants = {2, 4, 8, 16};
  std::vector<int> weights = {1, 3};
  uint32_t cpu_threads = 0;
};

v1::ServerConfig ConfigWith(const std::string& tenants_file, const Settings& settings) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_tenants(tenants_file);
  config.set_cpu_threads(settings.cpu_threads);
  return config;
}

// Says whose call failed, and ends.
void Check(const std::string& tenant, const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", tenant.c_str(), status.ToString().c_str());
  KILN_CHECK(status.ok());
}

// Threads that do something again and again until this ends.
class Busy {
 public:
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  void Add(std::function<void(const std::atomic<bool>& stop)> work) {
    threads_.emplace_back([this, work = std::move(work)] { work(stop_); });
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

std::unique_ptr<client::Client> ClientOf(const std::string& address, const std::string& tenant) {
  client::ClientOptions options;
  options.credentials = {};
  options.credentials.token = TokenOf(tenant);
  options.connect_timeout = absl::Seconds(60);
  auto connected = client::Client::Connect(address, options);
  Check(tenant, connected.status());
  return *std::move(connected);
}

// How a tenant keeps runs of a program waiting, by a stream: some batches of them, and one more as each has ended.
struct Want {
  int64_t elements = 0;
  uint64_t batch = 1;
  int batches = 1;
  std::atomic<uint64_t> ended{0};  // runs
};

void Saturate(const std::string& address, const std::string& tenant, Want& want, std::atomic<int>& ready,
              const std::atomic<bool>& stop) {
  const auto client = ClientOf(address, tenant);
  const auto program = client->Compile(SinesOf(want.elements));
  Check(tenant, program.status());
  const auto stream = client->OpenStream();
  Check(tenant, stream.status());
  // The stream's own: what a client of a tenant's makes outside of its session, a stream does not know.
  const client::Arguments arguments = client::Arguments().Set(0, (*stream)->Allocate(v1::FLOAT32, {want.elements}));
  std::deque<std::future<absl::Status>> fences;
  const auto send = [&] {
    for (uint64_t i = 0; i < want.batch; ++i) (*stream)->Execute(*program, arguments);
    fences.push_back((*stream)->Fence());
  };
  for (int i = 0; i < want.batches; ++i) send();
  for (bool counted = false; !stop; send()) {
    Check(tenant, fences.front().get());
    fences.pop_front();
    want.ended += want.batch;
    if (!std::exchange(counted, true)) ++ready;
  }
  for (auto& fence : fences) Check(tenant, fence.get());
}

// What tenants with always something waiting had, beside what they were entitled to.
struct Distances {
  // The greatest distance of one, in percent of its part: in any second, and of the whole.
  double second = 0, whole = 0;
  double busy = 0;     // the part of the time that the device worked for them
  double waiting = 1;  // of the moments that were looked at, those in which something of one waited: the least of all
  double longest_ms = 0;  // run, that was seen
  double runs = 0;        // that ended, of who has the same weight and short runs, from their mean, in percent
};

double Distance(const std::vector<uint64_t>& got, const std::vector<double>& entitled) {
  double sum = 1, most = 0;
  for (const uint64_t ns : got) sum += static_cast<double>(ns);
  for (size_t i = 0; i < got.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(got[i]) / sum / entitled[i] - 1));
  }
  return 100 * most;
}

std::vector<uint64_t> Minus(std::vector<uint64_t> a, const std::vector<uint64_t>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= std::min(a[i], b[i]);
  return a;
}

// Looks every few milliseconds, for so many seconds, at the first device of the engine.
Distances Watch(server::Engine& engine, const std::vector<const Account*>& tenants, const std::vector<double>& entitled,
                double seconds) {
  Distances result;
  std::vector<uint64_t> first, before, now(tenants.size());
  std::vector<int> waited(tenants.size());
  int looks = 0;
  double next = 1;
  for (const auto begin = std::chrono::steady_clock::now();;) {
    const double passed = SecondsSince(begin);
    const server::LineLook look = engine.turns().Look(*engine.devices().front(), tenants);
    for (size_t i = 0; i < tenants.size(); ++i) {
      now[i] = look.measured_ns[server::PayerOf(tenants[i])];
      waited[i] += look.waiting_of[i] > 0 ? 1 : 0;
    }
    if (!look.running.empty()) {
      const absl::Duration age = SteadyNow() - look.running.front().began;
      result.longest_ms = std::max(result.longest_ms, absl::ToDoubleMilliseconds(age));
    }
    ++looks;
    if (first.empty()) first = before = now;
    if (passed >= std::min(next, seconds)) {
      result.second = std::max(result.second, Distance(Minus(now, before), entitled));
      before = now;
      next += 1;
    }
    if (passed >= seconds) {
      const std::vector<uint64_t> all = Minus(now, first);
      for (const uint64_t ns : all) result.busy += static_cast<double>(ns) / 1e9 / passed;
      result.whole = Distance(all, entitled);
      for (const int each : waited) result.waiting = std::min(result.waiting, 1.0 * each / looks);
      return result;
    }
    absl::SleepFor(absl::Milliseconds(3));
  }
}

// How far the number of one is from the mean of its group, in percent, of groups of two or more.
double DistanceInGroups(const std::vector<std::vector<uint64_t>>& groups) {
  double most = 0;
  for (const std::vector<uint64_t>& group : groups) {
    const std::vector<double> even(group.size(), group.empty() ? 1 : 1.0 / static_cast<double>(group.size()));
    most = std::max(most, Distance(group, even));
  }
  return most;
}

Distances Shares(int tenants, int weight, const Settings& settings) {
  std::string text = TenantText("uploads", "") + TenantText("compiles", "");
  std::vector<double> entitled;
  double sum = 0;
  const auto weight_of = [&](int i) { return i % 2 == 0 ? 1 : weight; };
  for (int i = 0; i < tenants; ++i) sum += weight_of(i);
  for (int i = 0; i < tenants; ++i) {
    text += TenantText(absl::StrCat("t", i), absl::StrCat("weight: ", weight_of(i)));
    entitled.push_back(weight_of(i) / sum);
  }
  const Folder folder;
  BenchServer server(ConfigWith(folder.Write("tenants.txtpb", text), settings), "/proc/self/exe");
  const std::string& address = server.address();
  server::Engine& engine = server.server().engine();

  std::atomic<int> ready = 0;
  std::deque<Want> wants;
  Busy busy;
  std::vector<const Account*> accounts;
  for (int i = 0; i < tenants; ++i) {
    const std::string name = absl::StrCat("t", i);
    accounts.push_back(engine.accounts().Of(name));
    const bool runs_long = (i % 2 == 0) != ((i / 2) % 2 == 1);  // of each weight both, where there are four
    Want& want = wants.emplace_back();
    want.elements = runs_long ? settings.long_elements : settings.short_elements;
    want.batch = runs_long ? 4 : 32;
    want.batches = runs_long ? 4 : 16;
    busy.Add([&, name](const std::atomic<bool>& stop) { Saturate(address, name, want, ready, stop); });
  }
  busy.Add([&](const std::atomic<bool>& stop) {
    const auto client = ClientOf(address, "uploads");
    const std::string bytes(1 << 20, 'u');
    const auto buffer = client->Allocate(bytes.size());
    Check("uploads", buffer.status());
    for (++ready; !stop;) Check("uploads", client->Write(*buffer, bytes));
  });
  busy.Add([&](const std::atomic<bool>& stop) {
    const auto client = ClientOf(address, "compiles");
    ++ready;
    for (int64_t i = 0; !stop; ++i) Check("compiles", client->Compile(SinesOf(2'000'000 + i)).status());
  });
  while (ready < tenants + 2) absl::SleepFor(absl::Milliseconds(10));
  absl::SleepFor(absl::Seconds(std::min(1.0, settings.seconds)));
  // The runs that ended meanwhile, of those whose runs are short, by weight.
  const auto runs = [&] {
    std::vector<std::vector<uint64_t>> groups(2);
    for (int i = 0; i < tenants; ++i) {
      if (wants[i].elements == settings.short_elements) groups[weight_of(i) == 1 ? 0 : 1].push_back(wants[i].ended);
    }
    return groups;
  };
  const auto before = runs();
  Distances result = Watch(engine, accounts, entitled, settings.seconds);
  auto ended = runs();
  for (size_t i = 0; i < ended.size(); ++i) ended[i] = Minus(ended[i], before[i]);
  result.runs = DistanceInGroups(ended);
  return result;
}

// The third party's latencies.
load::ClassResult Tail(const std::string& how, const Settings& settings) {
  const char* const names[] = {"third", "long", "short", "uploads", "compiles"};
  const bool alone = how == "alone", one_queue = how == "one queue";
  const Folder folder;
  std::string tenants, mix;
  for (const char* name : names) {
    const bool third = name == names[0];
    tenants += TenantText(name, third ? "class: INTERACTIVE" : "");
    absl::StrAppend(&mix, "tenant ", name,
                    " token_file=", folder.Write(absl::StrCat(name, ".token"), TokenOf(one_queue ? "long" : name)),
                    "\n");
  }
  const auto graph = [&](int64_t elements) {
    return folder.Write(absl::StrCat(elements, ".uop"), SinesText(absl::StrCat(elements)));
  };
  const auto add = [&](const char* name, const std::string& fields) {
    absl::StrAppend(&mix, "class ", name, " tenant=", one_queue ? "long" : name, " ", fields, "\n");
  };
  add("third", absl::StrCat("rate=100 arrivals=constant outstanding=1000 graph=", graph(settings.short_elements)));
  if (!alone) {
    // As many as are answered, and more: the bound is always reached.
    add("long", absl::StrCat("rate=10000 outstanding=16 graph=", graph(settings.long_elements)));
    add("short", absl::StrCat("rate=50000 outstanding=16 graph=", graph(settings.short_elements)));
    add("uploads", "rate=50 kind=upload bytes=1M outstanding=4");
    add("compiles", absl::StrCat("rate=10 kind=compile outstanding=2 graph=", folder.Write("n.uop", SinesText("{n}"))));
  }
  BenchServer server(ConfigWith(folder.Write("tenants.txtpb", tenants), settings), "/proc/self/exe");
  const auto generator = MakeLoad(server.address(), mix);
  load::Step step;
  step.warm_up = absl::Seconds(std::min(1.0, settings.tail_seconds));
  step.length = absl::Seconds(settings.tail_seconds);
  step.drain = absl::Seconds(60);
  const auto results = generator->Run(step);
  for (const load::ClassResult& each : results) KILN_CHECK(each.due == each.answered.count() + each.failed.count());
  const load::ClassResult& third = ResultOf(results, "third");
  KILN_CHECK(third.ok > 0);
  return third;
}

// What who is alone pays for being by turns.
void PrintAlone(const Settings& settings) {
  const Folder folder;
  BenchServer server(ConfigWith(folder.Write("tenants.txtpb", TenantText("alone", "")), settings), "/proc/self/exe");
  std::printf(
      "\n| alone: runs of | at once | by turns µs | without µs | by turns, of without |\n|---|---|---|---|---|\n");
  for (const int64_t elements : {settings.short_elements, settings.long_elements}) {
    for (const int at_once : {1, 8}) {
      const AlonePrice price = PriceAlone(server.server().engine(), elements, at_once, settings.alone_seconds);
      std::printf("| %ld sines | %d | %.1f | %.1f | %.4f × |\n", static_cast<long>(100 * elements), at_once,
                  price.turns_micros, price.device_micros, price.ratio);
      std::fflush(stdout);
    }
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Shares of a device by weight, and a small caller's latency beside others");
  Settings settings;
  bool smoke = false;
  app.add_option("--seconds", settings.seconds, "of each row of shares")->capture_default_str();
  app.add_option("--tail_seconds", settings.tail_seconds, "of each row of latencies")->capture_default_str();
  app.add_option("--alone_seconds", settings.alone_seconds, "of each row of one alone")->capture_default_str();
  app.add_option("--tenants", settings.tenants, "how many there are")->delimiter(',');
  app.add_option("--cpu_threads", settings.cpu_threads,
                 "that compute; 0 is one a core. With fewer, calls, compilations and clients have cores of their own");
  app.add_option("--short_elements", settings.short_elements, "of a short run, some 50 ns each")->capture_default_str();
  app.add_option("--long_elements", settings.long_elements, "of a long one")->capture_default_str();
  app.add_flag("--smoke", smoke, "a moment of each: whether it works");
  CLI11_PARSE(app, argc, argv);
  if (smoke) {
    settings.seconds = settings.tail_seconds = settings.alone_seconds = 0.5;
    settings.tenants = {2};
    settings.weights = {3};
  }
  std::printf(
      "| weights | tenants | worst second, of one's part | worst over all | longest run ms | device in use | always "
      "waiting | runs of equals |\n|---|---|---|---|---|---|---|---|\n");
  for (const int weight : settings.weights) {
    for (const int tenants : settings.tenants) {
      const Distances distances = Shares(tenants, weight, settings);
      std::printf("| 1 : %d | %d | ±%.1f %% | ±%.1f %% | %.1f | %.0f %% | %.0f %% | ±%.1f %% |\n", weight, tenants,
                  distances.second, distances.whole, distances.longest_ms, 100 * distances.busy,
                  100 * distances.waiting, distances.runs);
      std::fflush(stdout);
    }
  }
  std::printf(
      "\n| a third party's short runs | p50 µs | p99 µs | max µs | p99, of alone | answered "
      "|\n|---|---|---|---|---|---|"
      "\n");
  double alone = 0;
  for (const char* how : {"alone", "beside four tenants", "one queue"}) {
    const load::ClassResult third = Tail(how, settings);
    const auto micros = [&](double part) { return static_cast<double>(third.answered.Quantile(part)) / 1e3; };
    if (alone == 0) alone = micros(0.99);
    std::printf("| %s | %.0f | %.0f | %.0f | %.2f × | %.1f %% |\n", how, micros(0.5), micros(0.99), micros(1),
                micros(0.99) / alone, 100 * static_cast<double>(third.ok) / static_cast<double>(third.due));
    std::fflush(stdout);
  }
  PrintAlone(settings);
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  if (kiln::server::IsWorker(argc, argv)) return kiln::server::ServeWorker(argc, argv);
  return kiln::bench::Main(argc, argv);
}
