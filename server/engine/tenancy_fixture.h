// An engine with tenants: on devices that compute nothing, with a compiler that makes nothing.
#ifndef KILN_SERVER_ENGINE_TENANCY_FIXTURE_H_
#define KILN_SERVER_ENGINE_TENANCY_FIXTURE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "runtime/drivers/null/device.h"
#include "server/engine/engine.h"

namespace kiln::server {

inline v1::ErrorCode CodeOf(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
}

// What a test of them has, and asks.
class EngineWithTenants {
 protected:
  EngineWithTenants() { Restart(1); }

  void Restart(int devices, uint32_t compile_threads = EngineOptions().compile_threads, uint64_t memory = kMemory) {
    std::vector<std::unique_ptr<runtime::hal::Device>> made;
    for (int i = 0; i < devices; ++i) {
      made.push_back(*runtime::null::CreateDevice(
          {.name = absl::StrCat("NULL:", i), .memory_limit_bytes = memory, .on_load = [this] {
             return loading_ == nullptr ? absl::OkStatus() : loading_();
           }}));
    }
    const auto compile = [this](const v1::Graph&, const v1::Target& target, const compiler::Options&,
                                compiler::CompileObserver* observer) -> absl::StatusOr<CompiledProgram> {
      ++compiles_;
      if (working_ != nullptr) working_();
      const absl::Time begin = SteadyNow();
      absl::Status ended = ending_ == nullptr ? absl::OkStatus() : ending_();
      observer->OnPart(compiler::CompilePart::kCode, begin, SteadyNow());
      if (!ended.ok()) return ended;
      v1::Executable executable;
      *executable.mutable_target() = target;
      v1::Kernel& kernel = *executable.add_kernels();
      kernel.set_symbol("k");
      kernel.set_iterations(1);
      executable.add_steps();
      return executable;
    };
    EngineOptions options;
    options.sessions.domain_secret = "secret";
    options.compile_threads = compile_threads;
    options.disk = disk_;
    engine_ = std::make_unique<Engine>(options, std::move(made), InProcess(compile), nullptr);
  }

  // A graph of its own for each number.
  static v1::Graph GraphOf(int number) {
    return *ParseGraph(absl::StrCat("0 CONST [] int32 ", number, "\n1 SINK [0]\n"));
  }

  SessionPtr Home(const std::string& tenant) { return engine_->sessions().HomeOf(tenant); }
  Account& AccountOf(const std::string& tenant) { return *engine_->accounts().Of(tenant); }
  void SetLimit(const std::string& tenant, Quota quota, uint64_t limit) {
    QuotaLimits limits = {};
    limits[static_cast<size_t>(quota)] = limit;
    AccountOf(tenant).SetLimits(limits);
  }

  absl::StatusOr<CompileResult> Compile(const std::string& tenant, int number, absl::string_view device = "",
                                        Control control = {}) {
    const v1::Graph graph = GraphOf(number);
    control.account = &AccountOf(tenant);
    absl::StatusOr<CompileResult> result;
    absl::Notification done;
    engine_->Compile({&graph, device, {}, Home(tenant)}, control, [&](absl::StatusOr<CompileResult> r) {
      result = std::move(r);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  std::vector<std::string> HashesOf(const std::string& tenant) {
    std::vector<std::string> hashes;
    for (const auto& program : engine_->ListPrograms(Home(tenant).get()))
      hashes.emplace_back(program->graph_hash.view());
    return hashes;
  }

  absl::Status Record(const std::string& tenant, const std::string& hash) {
    v1::RecordSequenceRequest request;
    request.add_programs()->set_graph_hash(hash);
    request.add_steps();
    absl::Status status;
    absl::Notification done;
    engine_->Record(request, Home(tenant), {}, [&](absl::StatusOr<Recordings::Handle> recording) {
      status = recording.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }

  // What a file of tenants says.
  absl::Status SetTenants(const std::vector<Tenant>& tenants) {
    std::vector<std::shared_ptr<const Tenant>> all;
    for (const Tenant& tenant : tenants) all.push_back(std::make_shared<const Tenant>(tenant));
    return engine_->SetTenants(all);
  }
  static Tenant Named(const std::string& name, uint64_t guaranteed = 0, std::vector<std::string> devices = {}) {
    Tenant tenant;
    tenant.name = name;
    tenant.guaranteed_device_bytes = guaranteed;
    tenant.devices = std::move(devices);
    return tenant;
  }

  absl::StatusOr<uint64_t> Allocate(const std::string& tenant, uint64_t bytes, absl::string_view device = "") {
    auto made = engine_->buffers().Allocate(device, bytes, Home(tenant));
    if (!made.ok()) return std::move(made).status();
    return made->handle;
  }
  absl::Status Free(const std::string& tenant, uint64_t handle) {
    return engine_->buffers().Free({handle}, Home(tenant).get());
  }

  static constexpr uint64_t kMemory = 1 << 20;
  // What a small program weighs.
  const uint64_t each_ = WeightOf(0, 1, EngineOptions().program_cache_bytes);
  std::atomic<int> compiles_{0};
  std::function<void()> working_;          // what compiling takes
  std::function<absl::Status()> ending_;   // and what it ends with
  std::function<absl::Status()> loading_;  // what a device does for each program that it loads
  std::shared_ptr<ProgramDisk> disk_;      // of engines that Restart makes
  std::unique_ptr<Engine> engine_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_TENANCY_FIXTURE_H_
