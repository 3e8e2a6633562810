// Compile workers whose compiler does what a graph's tag says (faulty_compiler.cc).
#ifndef KILN_TESTS_HOSTILE_COMPILE_WORKERS_FIXTURE_H_
#define KILN_TESTS_HOSTILE_COMPILE_WORKERS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "server/compile_worker/compile_workers.h"
#include "server/compile_worker/job.h"

namespace kiln::server {

inline std::string* const faulty_compiler = new std::string("tests/hostile/faulty_compiler");

inline v1::Graph GraphOf(const std::string& tag, int number = 0) {
  v1::Graph graph;
  v1::UOp& node = *graph.add_nodes();
  node.set_tag(tag);
  node.mutable_src()->Add(static_cast<uint32_t>(number));
  return graph;
}

inline TrustDomain DomainNumber(int number) { return DomainOf("secret", absl::StrCat("tenant ", number)); }

class CompileWorkersTest : public testing::Test {
 protected:
  void Start(CompileWorkersOptions options = {}) {
    options.binary = *faulty_compiler;
    options.memory_bytes = uint64_t{1} << 30;
    auto started = CompileWorkers::Start(options, ToJob(GraphOf("warm"), {}, {}, nullptr));
    ASSERT_TRUE(started.ok()) << started.status();
    workers_ = *std::move(started);
  }

  absl::StatusOr<std::string> Compile(const std::string& tag, int domain = 0,
                                      absl::Time deadline = absl::InfiniteFuture(), int number = 0) {
    CompileFor whom{DomainNumber(domain), {}};
    whom.control.deadline = deadline;
    auto program = workers_->Compile(GraphOf(tag, number), {}, {}, nullptr, whom);
    KILN_RETURN_IF_ERROR(program.status());
    return std::get<v1::Executable>(*program).object();
  }

  static v1::ErrorCode CodeOf(const absl::Status& status) {
    const auto detail = DetailOf(status);
    return detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
  }
  static size_t Descriptors() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
  }

  std::unique_ptr<CompileWorkers> workers_;
};

}  // namespace kiln::server

#endif  // KILN_TESTS_HOSTILE_COMPILE_WORKERS_FIXTURE_H_
