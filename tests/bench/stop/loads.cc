// Loading: a program's code into a device, and tensors from files into buffers.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "compiler/compile_program.h"
#include "runtime/drivers/cpu/device.h"
#include "server/engine/engine.h"
#include "server/files/loader.h"
#include "tests/bench/stop/places.h"

namespace kiln::bench {
namespace {

using runtime::hal::LaunchControl;

// More than a model of a hundred layers has.
constexpr int kKernels = 256, kSmokeKernels = 8;
constexpr uint64_t kFileBytes = 512 << 20, kSmokeFileBytes = 64 << 20;

// One kernel for each result, since each has a size of its own.
v1::Graph ManyKernels(int kernels) {
  std::string text, results;
  for (int i = 0, next = 0; i < kernels; ++i, next += 3) {
    absl::StrAppend(&text, next, " CONST [] weakint ", 1000 + i, "\n", next + 1, " PARAM : float32 [", next,
                    "] slot=", i, "\n", next + 2, " EXP2 [", next + 1, "]\n");
    absl::StrAppend(&results, i == 0 ? "" : ", ", next + 2);
  }
  const auto graph = ParseGraph(absl::StrCat(text, 3 * kernels, " TUPLE [", results, "]\n"));
  KILN_CHECK(graph.ok());
  return *graph;
}

// Linking cannot be stopped: what counts is when the caller is answered. To the engine, each is another graph, for
// which its compiler has the same code at hand.
void ProgramRow(Stops& stops, const std::string& name) {
  std::vector<std::unique_ptr<runtime::hal::Device>> devices;
  devices.push_back(*runtime::cpu::CreateDevice({}));
  const int kernels = stops.smoke() ? kSmokeKernels : kKernels;
  const auto executable = compiler::Compile(ManyKernels(kernels), devices[0]->target(), compiler::Options());
  KILN_CHECK(executable.ok());
  KILN_CHECK(executable->kernels_size() == kernels);
  server::EngineOptions options;
  options.compile_threads = 2;  // one may be at what the call before has left
  options.program_cache_bytes = 64 << 20;
  const auto compile = [&executable](const auto&...) -> absl::StatusOr<server::CompiledProgram> { return *executable; };
  server::Engine engine(options, std::move(devices), server::InProcess(compile), /*gradient=*/nullptr);
  int number = 0;
  stops.Row(name, [&](const LaunchControl& control) {
    return Again([&] {
      const auto graph = ParseGraph(absl::StrCat("0 CONST [] int32 ", ++number, "\n1 SINK [0]\n"));
      KILN_CHECK(graph.ok());
      return Awaited([&](auto done) {
        engine.Compile({&*graph, "", {}, nullptr}, control, [done](const auto& made) { done(made.status()); });
      });
    });
  });
}

// A folder that goes with this.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / absl::StrCat("stop_bench.", getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

  // A .npy of so many bytes, all zeros, which take no place on the disk.
  void Write(const std::string& name, uint64_t bytes) const {
    std::string dict = absl::StrCat("{'descr': '|u1', 'fortran_order': False, 'shape': (", bytes, ",), }");
    dict.resize(117, ' ');
    const std::string header = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + dict + "\n";
    std::ofstream(path_ / name, std::ios::binary) << header;
    std::filesystem::resize_file(path_ / name, header.size() + bytes);
  }

 private:
  const std::filesystem::path path_;
};

void FileRow(Stops& stops, const std::string& name) {
  const Folder folder;
  folder.Write("large.npy", stops.smoke() ? kSmokeFileBytes : kFileBytes);
  std::vector<std::unique_ptr<runtime::hal::Device>> devices;
  devices.push_back(*runtime::cpu::CreateDevice({}));
  server::Engine engine(server::EngineOptions(), std::move(devices), server::InProcess(compiler::CompileProgram),
                        /*gradient=*/nullptr);
  auto opened = server::DataFolder::Open(folder.path().string());
  KILN_CHECK(opened.ok());
  server::Loader loader(*std::move(opened), &engine.buffers());
  stops.Row(name, [&](const LaunchControl& control) {
    return Again([&] {
      return Awaited([&](auto done) {
        loader.Load("large.npy", {}, "", nullptr, control, [&, done](const auto& loaded) {
          if (loaded.ok()) KILN_CHECK(engine.buffers().Free({loaded->front().buffer.handle}).ok());
          done(loaded.status());
        });
      });
    });
  });
}

}  // namespace

void LoadRows(Stops& stops) {
  if (const std::string name = "loading a program of 256 kernels"; stops.Wants(name)) ProgramRow(stops, name);
  if (const std::string name = "loading tensors from a file"; stops.Wants(name)) FileRow(stops, name);
}

}  // namespace kiln::bench
