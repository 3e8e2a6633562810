// How fast data goes to a device and back over TCP, beside bare gRPC streaming of bytes
// (grpc::ByteBuffer, which no message is made of) in one run, and what small requests
// notice of a long upload.
//
// The bare receiver lets go of what it gets; Kiln has it in the end where it belongs. The
// kinds take turns, so that whatever else the machine does falls on all of them alike.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "client/cpp/client.h"
#include "client/cpp/transport/raw_call.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/echo_service.h"

namespace kiln::bench {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kShared = 64 * kMiB;

// -- how fast

// Takes turns: seconds of each round, by kind.
std::vector<std::vector<double>> TakeTurns(int rounds, const std::vector<std::function<void()>>& kinds) {
  std::vector<std::vector<double>> seconds(kinds.size());
  for (int round = 0; round <= rounds; ++round) {
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      const auto begin = std::chrono::steady_clock::now();
      kinds[kind]();
      if (round > 0) seconds[kind].push_back(SecondsSince(begin));  // the first one warms up
    }
  }
  return seconds;
}

nlohmann::json Rates(const BenchServer& server, uint64_t mib, int rounds) {
  client::ClientOptions options;
  options.shared_memory = false;
  auto client = client::Client::Connect(server.address(), options);
  KILN_CHECK(client.ok());
  const uint64_t bytes = mib * kMiB;
  std::string source(bytes, '\0'), target(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i) source[i] = static_cast<char>(i * 2654435761u >> 24);
  const EchoServer echo(source);
  const auto bare = ChannelTo(echo.address());
  const auto buffer = (*client)->Allocate(bytes);
  KILN_CHECK(buffer.ok());

  const auto up_bare = [&] {
    grpc::ClientContext context;
    const auto stream = OpenSink(*bare, context);
    for (uint64_t at = 0; at < bytes; at += kMiB) {
      const grpc::Slice slice(&source[at], kMiB, grpc::Slice::STATIC_SLICE);
      KILN_CHECK(stream->Write(grpc::ByteBuffer(&slice, 1)));
    }
    stream->WritesDone();
    grpc::ByteBuffer answer;
    KILN_CHECK(stream->Read(&answer));
    KILN_CHECK(stream->Finish().ok());
  };
  const auto down_bare = [&] {
    grpc::ClientContext context;
    const auto stream = OpenSource(*bare, context);
    KILN_CHECK(stream->Write(ToMessage("all")) && stream->WritesDone());
    grpc::ByteBuffer message;
    uint64_t got = 0;
    while (stream->Read(&message)) got += message.Length();
    KILN_CHECK(got == bytes && stream->Finish().ok());
  };
  const auto up = [&] { KILN_CHECK((*client)->Write(*buffer, source).ok()); };
  const auto down = [&] { KILN_CHECK((*client)->ReadInto(*buffer, absl::MakeSpan(&target[0], bytes)).ok()); };

  nlohmann::json rows = nlohmann::json::array();
  const auto report = [&](const char* name, const std::vector<std::vector<double>>& seconds) {
    const double gb = static_cast<double>(bytes) * 1e-9;
    const double theirs = gb / Percentile(seconds[0], 0.5), ours = gb / Percentile(seconds[1], 0.5);
    std::printf("%-10s bare %6.2f GB/s   Kiln %6.2f GB/s   ratio %5.2f\n", name, theirs, ours, ours / theirs);
    rows.push_back({{"name", name}, {"bare_gb_s", theirs}, {"kiln_gb_s", ours}, {"ratio", ours / theirs}});
  };
  report("upload", TakeTurns(rounds, {up_bare, up}));
  report("download", TakeTurns(rounds, {down_bare, down}));
  KILN_CHECK(target == source);
  return rows;
}

// -- what others notice

// Sends `bytes` bytes to a buffer of that size: the same chunk, again and again.
void UploadOneChunkOver(const std::string& address, uint64_t bytes) {
  auto client = client::Client::Connect(address);
  KILN_CHECK(client.ok());
  const auto buffer = (*client)->Allocate(bytes);
  KILN_CHECK(buffer.ok());
  grpc::GenericStub stub(ChannelTo(address));
  grpc::ClientContext context;
  client::RawCall call(stub, context, "/kiln.v1.BufferService/Write");
  v1::WriteRequest part;
  *part.mutable_header()->mutable_buffer() = buffer->Ref();
  part.mutable_header()->set_bytes(bytes);
  KILN_CHECK(call.Write(ToMessage(part.SerializeAsString())));
  part.set_chunk(std::string(kMiB, 'c'));
  const grpc::ByteBuffer chunk = ToMessage(part.SerializeAsString());
  for (uint64_t sent = 0; sent < bytes; sent += kMiB) KILN_CHECK(call.Write(chunk));
  call.WritesDone();
  grpc::ByteBuffer answer;
  call.Read(answer);
  KILN_CHECK(call.Finish().ok());
}

// By memory that the server has mapped, one piece of it after the other.
void UploadShared(const std::string& address, uint64_t bytes) {
  auto client = client::Client::Connect(address);
  KILN_CHECK(client.ok());
  const auto buffer = (*client)->Allocate(bytes);
  const auto shared = (*client)->AllocateShared(kShared);
  KILN_CHECK(buffer.ok() && shared.ok());
  const absl::Span<char> piece = (*shared)->span();
  std::fill(piece.begin(), piece.end(), 'c');
  for (uint64_t at = 0; at < bytes; at += kShared) {
    const uint64_t size = std::min(kShared, bytes - at);
    KILN_CHECK((*client)->Write(*buffer, absl::string_view(piece.data(), size), at).ok());
  }
}

// The same of the bare service.
void UploadToSink(const std::string& address, uint64_t bytes) {
  grpc::ClientContext context;
  const auto channel = ChannelTo(address);
  const auto stream = OpenSink(*channel, context);
  const grpc::ByteBuffer chunk = ToMessage(std::string(kMiB, 'c'));
  for (uint64_t sent = 0; sent < bytes; sent += kMiB) KILN_CHECK(stream->Write(chunk));
  stream->WritesDone();
  grpc::ByteBuffer answer;
  KILN_CHECK(stream->Read(&answer) && stream->Finish().ok());
}

// Microseconds of each call, until `enough`.
std::vector<double> TimeCalls(const std::function<void()>& call, const std::function<bool(size_t calls)>& enough) {
  std::vector<double> micros;
  while (!enough(micros.size())) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    micros.push_back(SecondsSince(begin) * 1e6);
  }
  return micros;
}

nlohmann::json BesideAnUpload(const char* name, const std::function<void()>& call, int calls, uint64_t mib,
                              const std::function<void(uint64_t bytes)>& upload) {
  const auto until = [&](int most) { return [most](size_t done) { return done == static_cast<size_t>(most); }; };
  TimeCalls(call, until(calls / 10));
  const auto idle = TimeCalls(call, until(calls));
  upload(mib * kMiB);  // warms up: the system takes memory from its host once
  std::atomic<bool> ended = false;
  const auto begin = std::chrono::steady_clock::now();
  std::thread uploader([&] {
    upload(mib * kMiB);
    ended = true;
  });
  const auto busy = TimeCalls(call, [&](size_t done) { return done > 0 && ended; });
  uploader.join();
  const double gb_s = static_cast<double>(mib * kMiB) * 1e-9 / SecondsSince(begin);
  nlohmann::json row = {{"name", name}, {"upload_gb_s", gb_s}, {"calls", busy.size()}};
  std::printf("%-26s %6.2f GB/s %8zu calls", name, gb_s, busy.size());
  for (const auto& [label, p] : {std::pair("p50", 0.5), std::pair("p99", 0.99)}) {
    const double alone = Percentile(idle, p), beside = Percentile(busy, p);
    std::printf("   %s %7.1f us, alone %7.1f us, ratio %5.2f", label, beside, alone, beside / alone);
    row[label] = {{"idle_us", alone}, {"during_upload_us", beside}, {"ratio", beside / alone}};
  }
  std::printf("\n");
  return row;
}

nlohmann::json SmallCalls(const BenchServer& server, uint64_t mib, int calls) {
  const auto client = client::Client::Connect(server.address());
  KILN_CHECK(client.ok());
  const auto memory = (*client)->Allocate(kTinyBytes);
  KILN_CHECK(memory.ok());
  v1::ExecuteRequest request;
  request.set_graph_hash(server.Compile(kTiny));
  *request.add_arguments()->mutable_buffer() = memory->Ref();
  const auto stub = v1::KernelService::NewStub(ChannelTo(server.address()));
  const auto execute = [&] {
    grpc::ClientContext context;
    v1::ExecuteResponse response;
    KILN_CHECK(stub->Execute(&context, request, &response).ok());
  };
  const EchoServer echo;
  const auto bare = ChannelTo(echo.address());
  const grpc::ByteBuffer message = ToMessage(request.SerializeAsString());
  std::printf("small calls beside an upload of %.1f GiB:\n", static_cast<double>(mib) / 1024);
  return {BesideAnUpload(
              "bare, to a bare sink", [&] { KILN_CHECK(Echo(*bare, message).ok()); }, calls, mib,
              [&](uint64_t bytes) { UploadToSink(echo.address(), bytes); }),
          BesideAnUpload("Execute, by TCP", execute, calls, mib,
                         [&](uint64_t bytes) { UploadOneChunkOver(server.address(), bytes); }),
          BesideAnUpload("Execute, by shared memory", execute, calls, mib,
                         [&](uint64_t bytes) { UploadShared(server.address(), bytes); })};
}

int Main(int argc, char** argv) {
  CLI::App app{"Measures uploads and downloads over TCP beside bare gRPC streaming of bytes.", "data_bench"};
  uint64_t mib = 256, long_mib = 8192;
  int rounds = 9, calls = 5000;
  bool smoke = false;
  std::string json_path;
  app.add_option("--mib", mib, "of one upload or download")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  app.add_option("--long_mib", long_mib, "of the upload beside small calls")->capture_default_str();
  app.add_option("--rounds", rounds, "of each kind; the median counts")->capture_default_str();
  app.add_flag("--smoke", smoke, "little data: only to see that it runs");
  app.add_option("--json", json_path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  if (smoke) mib = 4, long_mib = 16, rounds = 1, calls = 50;

  const BenchServer server(/*shared_memory_bytes=*/256 * kMiB);
  nlohmann::json report = {{"bench", "data"}, {"mib", mib}, {"long_mib", long_mib}};
  report["rates"] = Rates(server, mib, rounds);
  report["small_calls"] = SmallCalls(server, long_mib, calls);
  return WriteReport(report, json_path);
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
