// What a command of a stream costs beside the wire: Execute commands on
// KernelService.Submit next to bare messages on a bidirectional stream, in one run.
//
// Ping-pong: one message, one answer, in turns with the bare stream. Pipelined: as many
// as the streams take, all written before the last is answered; a bare message is echoed,
// a command is not answered unless it fails, and a fence ends each round.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/echo_service.h"

namespace kiln::bench {
namespace {

// One of the two: what it sends, and how it is opened.
class Line {
 public:
  explicit Line(const std::string& echo_address) : channel_(ChannelTo(echo_address)) {
    stream_ = OpenEcho(*channel_, context_);
  }
  Line(const std::string& address, const std::string& graph_hash) : channel_(ChannelTo(address)) {
    stream_ = OpenRaw(*channel_, "/kiln.v1.KernelService/Submit", context_);
    v1::SubmitRequest hello;
    hello.mutable_hello();
    KILN_CHECK(stream_->Write(ToMessage(hello.SerializeAsString())));
    grpc::ByteBuffer welcome;
    KILN_CHECK(stream_->Read(&welcome));
    v1::SubmitRequest allocate;
    allocate.set_command_id(++command_);
    allocate.mutable_allocate()->set_handle(1);
    allocate.mutable_allocate()->set_bytes(kTinyBytes);
    KILN_CHECK(stream_->Write(ToMessage(allocate.SerializeAsString())));
    execute_.mutable_execute()->mutable_request()->set_graph_hash(graph_hash);
    execute_.mutable_execute()->mutable_request()->add_arguments()->mutable_buffer()->set_handle(1);
    execute_.mutable_execute()->add_result_handle(0);
    submits_ = true;
  }

  // Of an Execute command, whoever it is for: both lines send as many bytes.
  grpc::ByteBuffer Message(bool answer) {
    execute_.set_command_id(++command_);
    execute_.set_answer(answer);
    return ToMessage(execute_.SerializeAsString());
  }
  void Copy(const Line& other) { execute_ = other.execute_; }

  double PingMicros() {
    const auto begin = std::chrono::steady_clock::now();
    grpc::ByteBuffer answer;
    KILN_CHECK(stream_->Write(Message(/*answer=*/true)) && stream_->Read(&answer));
    return SecondsSince(begin) * 1e6;
  }

  // Messages a second.
  double Pipelined(int messages) {
    const auto begin = std::chrono::steady_clock::now();
    std::thread reader([&] {
      grpc::ByteBuffer answer;
      for (int i = 0; i < (submits_ ? 1 : messages); ++i) KILN_CHECK(stream_->Read(&answer));
    });
    for (int i = 0; i + 1 < messages; ++i) KILN_CHECK(stream_->Write(Message(/*answer=*/false)));
    KILN_CHECK(stream_->Write(Message(/*answer=*/true)));
    reader.join();
    return messages / SecondsSince(begin);
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<RawStream> stream_;
  v1::SubmitRequest execute_;
  uint64_t command_ = 0;
  bool submits_ = false;
};

class Bench {
 public:
  std::unique_ptr<Line> Submit() { return std::make_unique<Line>(server_.address(), hash_); }
  std::unique_ptr<Line> Bare(const Line& like) {
    auto line = std::make_unique<Line>(echo_.address());
    line->Copy(like);
    return line;
  }

 private:
  const BenchServer server_;
  EchoServer echo_;
  const std::string hash_ = server_.Compile(kTiny);
};

// Messages a second of so many streams at once.
double Together(const std::vector<std::unique_ptr<Line>>& lines, int messages) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (const auto& line : lines) threads.emplace_back([&line, messages] { line->Pipelined(messages); });
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(lines.size()) * messages / SecondsSince(begin);
}

int Main(int argc, char** argv) {
  CLI::App app{"Measures commands of a stream beside bare messages of one.", "stream_bench"};
  int iterations = 20000;
  bool smoke = false;
  std::string json_path;
  app.add_option("--iterations", iterations, "messages of each kind")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--smoke", smoke, "few messages: only to see that it runs");
  app.add_option("--json", json_path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  if (smoke) iterations = 200;

  Bench bench;
  const auto submit = bench.Submit();
  const auto bare = bench.Bare(*submit);
  std::vector<double> of_submit, of_bare;
  for (int i = 0; i < iterations; ++i) {
    const double a = bare->PingMicros(), b = submit->PingMicros();
    if (i < iterations / 10) continue;
    of_bare.push_back(a);
    of_submit.push_back(b);
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const double p : {0.5, 0.99}) {
    const double mine = Percentile(of_submit, p), theirs = Percentile(of_bare, p);
    std::printf("ping-pong p%-2.0f   bare %9.1f us        Submit %9.1f us        ratio %5.2f\n", p * 100, theirs, mine,
                mine / theirs);
    rows.push_back({{"ping_pong_percentile", p}, {"bare_us", theirs}, {"submit_us", mine}});
  }
  for (const int streams : {1, 16}) {
    std::vector<std::unique_ptr<Line>> ours, bares;
    for (int i = 0; i < streams; ++i) {
      ours.push_back(bench.Submit());
      bares.push_back(bench.Bare(*ours.back()));
    }
    const int messages = std::max(1, iterations / streams);
    std::vector<double> rates, bare_rates;
    for (int round = 0; round < 5; ++round) {
      bare_rates.push_back(Together(bares, messages));
      rates.push_back(Together(ours, messages));
    }
    const double mine = Percentile(rates, 0.5), theirs = Percentile(bare_rates, 0.5);
    std::printf("pipelined, %2d    bare %9.0f messages/s Submit %9.0f commands/s ratio %5.2f\n", streams, theirs, mine,
                mine / theirs);
    rows.push_back({{"streams", streams}, {"bare_per_second", theirs}, {"submit_per_second", mine}});
  }
  return WriteReport({{"bench", "stream"}, {"rows", rows}}, json_path);
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
